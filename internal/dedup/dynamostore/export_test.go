package dynamostore

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once/internal/record"
)

// ItemSize returns the size of an item in bytes.
func ItemSize(it map[string]types.AttributeValue) int { return itemSize(it) }

// Item returns the table and key of a record, and an attribute without which it can't be read, for
// tests that damage it.
func Item(t Tables, key any) (table string, its map[string]types.AttributeValue, attribute string) {
	switch k := key.(type) {
	case record.GroupKey:
		return t.Groups, groupItemKey(k), attrVersion
	case record.HeldKey:
		return t.Groups, heldItemKey(k), attrMessage
	case record.Chunk:
		it, _ := encodeChunk(&k)
		return t.Groups, item{attrPK: it[attrPK], attrSK: it[attrSK]}, attrData
	case record.TokenKey:
		return t.Tokens, tokenItemKey(k), attrTokenState
	}
	panic(fmt.Sprintf("no record has a %T", key))
}
