package dynamostore

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/effectively-once/once/internal/dedup/encoding"
	"github.com/effectively-once/once/internal/record"
)

// Held implements record.Store.
func (s *Store) Held(ctx context.Context, from record.HeldKey, limit int) ([]record.Held, error) {
	held, err := s.heldFrom(ctx, from, limit)
	if err != nil {
		return nil, fmt.Errorf("read held messages of group %s: %w", from.Group, err)
	}
	return held, nil
}

func (s *Store) heldFrom(ctx context.Context, from record.HeldKey, limit int) ([]record.Held, error) {
	if err := ctx.Err(); err != nil || limit <= 0 {
		return nil, err
	}
	last := from
	last.Sequence = math.MaxUint64
	in := &dynamodb.QueryInput{
		TableName: &s.tables.Groups, ConsistentRead: aws.Bool(true),
		KeyConditionExpression:   aws.String("#pk=:pk AND #sk BETWEEN :from AND :last"),
		ExpressionAttributeNames: map[string]string{"#pk": attrPK, "#sk": attrSK},
		ExpressionAttributeValues: item{
			":pk": str(partition(from.Group)), ":from": str(heldSortKey(from)), ":last": str(heldSortKey(last)),
		},
	}
	var held []record.Held
	for {
		in.Limit = aws.Int32(int32(min(limit-len(held), math.MaxInt32))) //nolint:gosec // bounded
		out, err := s.client.Query(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, it := range out.Items {
			h, err := decodeHeld(it)
			if err != nil {
				return nil, err
			}
			held = append(held, h)
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; len(in.ExclusiveStartKey) == 0 || len(held) >= limit {
			return held, nil
		}
	}
}

func encodeHeld(key record.HeldKey, h *record.Held) (item, error) {
	it := heldItemKey(key)
	it[attrFormat] = number(format)
	it[attrMessage] = encoded(func(e *encoding.Encoder) { encoding.WriteHeld(e, h) })
	return it, fits(it)
}

func decodeHeld(it item) (record.Held, error) {
	r := &reader{item: it}
	r.checkFormat()
	var held record.Held
	if !r.record(attrMessage, func(d *encoding.Decoder) { encoding.ReadHeld(d, &held) }) {
		r.fail(attrMessage, "is missing")
	}
	if key := heldItemKey(heldKey(&held.Message)); r.err == nil && (r.text(attrPK) != partitionOf(key) || r.text(attrSK) != (&reader{item: key}).text(attrSK)) {
		r.fail(attrMessage, "is that of another key")
	}
	if r.err != nil {
		return record.Held{}, fmt.Errorf("held message: %w", r.err)
	}
	return held, nil
}

func heldKey(m *record.Message) record.HeldKey {
	return record.HeldKey{Group: m.GroupKey(), Source: m.SourceKey(), Epoch: m.Epoch, Sequence: m.Sequence}
}

func compareHelds(a, b record.HeldKey) int {
	return cmp.Or(
		cmp.Compare(a.Group.Stream, b.Group.Stream), cmp.Compare(a.Group.Group, b.Group.Group),
		cmp.Compare(a.Source, b.Source), cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.Sequence, b.Sequence),
	)
}
