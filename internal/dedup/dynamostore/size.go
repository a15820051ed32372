package dynamostore

import (
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once/internal/record"
)

// MaxItem is the largest size of an item in bytes, names included.
const MaxItem = 400 << 10

// ErrTooLarge says that a record exceeds the size of an item. Nothing was sent.
var ErrTooLarge = errors.New("record is larger than 400 KB")

// fits refuses an item that DynamoDB would always refuse.
func fits(it item) error {
	n := itemSize(it)
	if n <= MaxItem {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrTooLarge, &record.RefusedError{Reason: record.ReasonInvalid, Detail: fmt.Sprintf("record of %d bytes, at most %d", n, MaxItem)})
}

// commitFits refuses a commit whose item is too large. If it is too large only because of entries
// from earlier commits, there is room again when they are published: then the error wraps
// record.ErrFull.
func commitFits(c *record.Commit, it item) error {
	n := itemSize(it)
	if n <= MaxItem {
		return nil
	}
	before, pending := numbers(c.Loaded.Pending), entries(it, attrPending)
	waiting := 0
	for number := range before {
		if v := pending[numberName(number)]; v != nil {
			waiting += sizeOf(v)
		}
	}
	if n-waiting <= MaxItem {
		return fmt.Errorf("%w: %w: %d bytes, of which %d wait to be published", ErrTooLarge, record.ErrFull, n, waiting)
	}
	return fmt.Errorf("%w: %w", ErrTooLarge, &record.RefusedError{
		Reason: record.ReasonInvalid,
		Detail: fmt.Sprintf("group record of %d bytes, at most %d: the state has %d bytes, the rest are effects and replies", n-waiting, MaxItem, len(c.Next.State)),
	})
}

func itemSize(it item) int { return sizeOf(&types.AttributeValueMemberM{Value: it}) }

// sizeOf returns the size of a value as DynamoDB counts it, or a few bytes more.
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
