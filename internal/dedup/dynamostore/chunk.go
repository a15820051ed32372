package dynamostore

import (
	"context"
	"fmt"
	"math"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/effectively-once/once/internal/record"
)

// ReadLog implements record.LogReader. A query reads up to 1 MB, and is billed for the expired
// chunks that it passes.
func (s *Store) ReadLog(ctx context.Context, r record.LogRange) ([]record.Chunk, error) {
	chunks, err := s.readLog(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("read log of group %s: %w", r.Group, err)
	}
	return chunks, nil
}

func (s *Store) readLog(ctx context.Context, r record.LogRange) ([]record.Chunk, error) {
	if err := ctx.Err(); err != nil || r.After >= r.Last {
		return nil, err
	}
	now, size := s.nowMillis(), 0
	in := &dynamodb.QueryInput{
		TableName: &s.tables.Groups, ConsistentRead: aws.Bool(true),
		KeyConditionExpression:   aws.String("#pk=:pk AND #sk BETWEEN :from AND :last"),
		ExpressionAttributeNames: map[string]string{"#pk": attrPK, "#sk": attrSK},
		ExpressionAttributeValues: item{
			":pk": str(partition(r.Group)), ":from": str(chunkSortKey(r.Incarnation, r.After+1)), ":last": str(chunkSortKey(r.Incarnation, r.Last)),
		},
	}
	var chunks []record.Chunk
	limit := min(max(r.MaxBytes, 0)/usualChunk+1, maxChunks)
	if r.MaxEntries > 0 {
		limit = min(limit, r.MaxEntries)
	}
	for ; ; limit = min(2*limit, maxChunks) {
		in.Limit = aws.Int32(int32(limit))
		out, err := s.client.Query(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, it := range out.Items {
			if r.Enough(chunks, size) {
				return chunks, nil
			}
			c, err := decodeChunk(it, r)
			if err != nil {
				return nil, err
			}
			if c.Expires.IsZero() || c.Expires.UnixMilli() > now {
				chunks, size = append(chunks, c), size+len(c.Data)
			}
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; len(in.ExclusiveStartKey) == 0 || r.Enough(chunks, size) {
			return chunks, nil
		}
	}
}

const (
	// usualChunk is the size of a small chunk. The first query of a read asks for as many items of
	// that size as are enough, because each item of a page is billed.
	usualChunk = 1 << 10
	// maxChunks is more items than a page of 1 MB has.
	maxChunks = math.MaxInt16
)

func encodeChunk(c *record.Chunk) (item, error) {
	it := item{attrPK: str(partition(c.Group)), attrSK: str(chunkSortKey(c.Incarnation, c.Last))}
	it[attrFormat], it[attrFirst], it[attrData] = number(format), number(c.First), binary(c.Data)
	put(it, attrExpires, instant(c.Expires))
	put(it, attrTTL, ttl(c.Expires))
	return it, fits(it)
}

// decodeChunk decodes an item of a query.
func decodeChunk(it item, from record.LogRange) (record.Chunk, error) {
	r := &reader{item: it}
	r.checkFormat()
	r.need(attrFirst, attrData)
	c := record.Chunk{Group: from.Group, Incarnation: from.Incarnation, First: r.number(attrFirst), Data: r.binary(attrData), Expires: r.instant(attrExpires)}
	incarnation, last, ok := parseChunkSortKey(r.text(attrSK))
	if c.Last = last; r.err == nil && (!ok || incarnation != from.Incarnation || partitionOf(it) != partition(from.Group)) {
		r.fail(attrSK, "is not that of a chunk of this log")
	}
	if r.err == nil && (c.First == 0 || c.First > c.Last) {
		r.fail(attrFirst, "is not in the chunk")
	}
	if r.err != nil {
		return record.Chunk{}, fmt.Errorf("chunk that ends at entry %d: %w", last, r.err)
	}
	return c, nil
}
