package dynamostore

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/effectively-once/once/internal/record"
)

// Waiting gives the groups that have messages held, as far as the index knows: it is a moment behind the table. It reads the index alone, so it may be called often.
// After an error it gives no more. It begins with any shard: who has no time for all of them is with others the next time.
func (s *Store) Waiting(ctx context.Context) iter.Seq2[record.GroupKey, error] {
	return func(yield func(record.GroupKey, error) bool) {
		for _, n := range rand.Perm(waitingShards) { //nolint:gosec // nobody gains by guessing the order
			if !s.waiting(ctx, strconv.Itoa(n), yield) {
				return
			}
		}
	}
}

// waiting gives the groups of one shard, and tells whether to go on.
func (s *Store) waiting(ctx context.Context, shard string, yield func(record.GroupKey, error) bool) bool {
	in := &dynamodb.QueryInput{
		TableName: &s.tables.Groups, IndexName: aws.String(WaitingIndex), KeyConditionExpression: aws.String("#held=:shard"),
		ExpressionAttributeNames: map[string]string{"#held": attrHeld}, ExpressionAttributeValues: item{":shard": str(shard)},
	}
	for {
		out, err := s.client.Query(ctx, in)
		if err != nil {
			yield(record.GroupKey{}, fmt.Errorf("list waiting groups: %w", err))
			return false
		}
		for _, it := range out.Items {
			key, ok := parsePartition(partitionOf(it))
			if !ok {
				continue // not written by this program; whoever loads the group is told
			}
			if !yield(key, nil) {
				return false
			}
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; len(in.ExclusiveStartKey) == 0 {
			return true
		}
	}
}
