package dynamostore

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once/internal/record"
)

func TestADamagedItemIsCorruptAndNeverAbsent(t *testing.T) {
	for name, damage := range map[string]func(it item){
		"another format":     func(it item) { it[attrFormat] = number(2) },
		"no format":          func(it item) { delete(it, attrFormat) },
		"no number":          func(it item) { it[attrVersion] = str("1") },
		"no pending map":     func(it item) { delete(it, attrPending) },
		"no map":             func(it item) { it[attrSent] = str("") },
		"unnumbered entry":   func(it item) { entries(it, attrPending)["x"] = binary([]byte{0xa0}) },
		"entry of no bytes":  func(it item) { entries(it, attrPending)["1"] = number(1) },
		"half an entry":      func(it item) { entries(it, attrPending)["1"] = binary([]byte{0xa2, 1}) },
		"unknown field":      func(it item) { entries(it, attrPending)["1"] = binary([]byte{0xa1, 0x18, 99, 1}) },
		"nothing in common":  func(it item) { delete(it, attrCommon) },
		"common to others":   func(it item) { it[attrCommon] = binary([]byte{0x81, 0xa1, 1, 2}) },
		"common backwards":   func(it item) { it[attrCommon] = binary([]byte{0x82, 0xa1, 1, 1, 0xa1, 1, 0}) },
		"new in common":      func(it item) { it[attrCommon] = binary([]byte{0x81, 0xa2, 1, 1, 10, 1}) },
		"a third of a hash":  func(it item) { entries(it, attrPending)["1"] = binary([]byte{0xa1, 2, 0x41, 1}) },
		"sources of no kind": func(it item) { it[attrSources] = binary([]byte{1}) },
		"endless expiry":     func(it item) { it[attrExpires] = &types.AttributeValueMemberN{Value: "1e99"} },
	} {
		t.Run(name, func(t *testing.T) {
			it := encodeGroup(&record.Group{Version: 1, Incarnation: 1, Pending: []record.Pending{{Number: 1}}}, "attempt")
			damage(it)
			if g, err := decodeGroup(record.GroupKey{}, it, 0); !errors.Is(err, record.ErrCorrupt) {
				t.Errorf("got version %d and %v, want %v", g.Version, err, record.ErrCorrupt)
			}
		})
	}
	for name, it := range map[string]item{
		"token without a state": {attrPK: str("x"), attrFormat: number(format)},
		"token of a new state":  {attrPK: str("x"), attrFormat: number(format), attrTokenState: number(9)},
		"token of a new format": {attrPK: str("x"), attrFormat: number(2), attrTokenState: number(1)},
		"token's half a reply":  {attrPK: str("x"), attrFormat: number(format), attrTokenState: number(1), attrReply: binary([]byte{0xa2})},
		"token's short hash":    {attrPK: str("x"), attrFormat: number(format), attrTokenState: number(1), attrFingerprint: binary(make([]byte, 33))},
	} {
		if _, err := decodeToken(record.TokenKey{}, it, 0); !errors.Is(err, record.ErrCorrupt) {
			t.Errorf("%s: got %v, want %v", name, err, record.ErrCorrupt)
		}
	}
	if _, err := decodeHeld(item{attrFormat: number(format)}); !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("held message without its record: got %v, want %v", err, record.ErrCorrupt)
	}
}

func TestNumbersOfTwoSourcesDoNotMix(t *testing.T) {
	inside := heldSortKey(record.HeldKey{Source: "a#00000000000000000001#00000000000000000002", Epoch: 1, Sequence: 1})
	from, to := heldSortKey(record.HeldKey{Source: "a", Epoch: 1}), heldSortKey(record.HeldKey{Source: "a", Epoch: 1, Sequence: 1<<64 - 1})
	if from <= inside && inside <= to {
		t.Errorf("%q lies between %q and %q", inside, from, to)
	}
}
