package dynamostore

import (
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// MaxItem is what one item may hold, in bytes, names included.
const MaxItem = 400 << 10

// ErrTooLarge says that a record is larger than an item may be. Nothing was sent.
var ErrTooLarge = errors.New("record is larger than 400 KB")

// fits refuses an item that DynamoDB would refuse.
func fits(it item) error {
	if n := sizeOf(&types.AttributeValueMemberM{Value: it}); n > MaxItem {
		return fmt.Errorf("%w: %d bytes", ErrTooLarge, n)
	}
	return nil
}

// sizeOf is the size of a value as DynamoDB counts it, or a few bytes more.
func sizeOf(v types.AttributeValue) int {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		return len(v.Value)/2 + 2
	case *types.AttributeValueMemberM:
		n := 3
		for name, value := range v.Value {
			n += 1 + len(name) + sizeOf(value)
		}
		return n
	default:
		return 1
	}
}
