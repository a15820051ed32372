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

// Waiting returns the groups that hold messages, according to the index, which lags behind the
// table by a moment. It reads only the index, so it is cheap enough to be called often. It stops
// after an error. It starts at a random shard, so that callers that are cut short cover all shards
// in the end.
func (s *Store) Waiting(ctx context.Context) iter.Seq2[record.GroupKey, error] {
	return func(yield func(record.GroupKey, error) bool) {
		for _, n := range rand.Perm(waitingShards) { //nolint:gosec // not a secret
			if !s.waiting(ctx, strconv.Itoa(n), yield) {
				return
			}
		}
	}
}

// waiting yields the groups with held messages in one shard of the index, and reports whether to
// continue with the next shard.
func (s *Store) waiting(ctx context.Context, shard string, yield func(record.GroupKey, error) bool) bool {
	in := &dynamodb.QueryInput{
		TableName: &s.tables.Groups, IndexName: aws.String(waitingIndex), KeyConditionExpression: aws.String("#held=:shard"),
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
			// not written by this program; a load of the group will report it
			if !ok {
				continue // not written by this program; loading the group returns the error
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
