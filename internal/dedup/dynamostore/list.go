package dynamostore

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once/internal/record"
)

// Groups implements record.Lister. It reads the whole table, a part at a time; the order is DynamoDB's. A key without a group stands before all others.
func (s *Store) Groups(ctx context.Context, stream string, after record.GroupKey, limit int) ([]record.Group, error) {
	now := s.nowMillis()
	x := newExpression()
	x.equal(str(stateKey), attrSK)
	x.live(now)
	if stream != "" {
		x.conditions = append(x.conditions, "begins_with("+x.path(attrPK)+","+x.value(str(stream+"#"))+")")
	}
	var start item
	if after.Group != "" {
		start = groupItemKey(after)
	}
	var out []record.Group
	var corrupt error
	err := s.scan(ctx, s.tables.Groups, x, start, limit, func(it item) error {
		key, ok := parsePartition(partitionOf(it))
		if !ok {
			return fmt.Errorf("%w: partition without a stream", record.ErrCorrupt)
		}
		g, err := s.wholeGroup(ctx, key, it, now)
		if errors.Is(err, errClaimGone) {
			var again []record.Group
			if again, err = s.loadGroups(ctx, []record.GroupKey{key}); err == nil {
				g = again[0]
			}
		}
		switch {
		case errors.Is(err, record.ErrCorrupt) || errors.Is(err, errClaimGone):
			corrupt = cmp.Or(corrupt, fmt.Errorf("group %s: %w: %w", key, record.ErrCorrupt, err))
		case err != nil:
			return fmt.Errorf("group %s: %w", key, err)
		case g.Version > 0:
			out = append(out, g)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	if corrupt != nil {
		return out, fmt.Errorf("list groups: %w", corrupt)
	}
	return out, nil
}

// Tokens implements record.Lister, as Groups does.
func (s *Store) Tokens(ctx context.Context, after record.TokenKey, limit int) ([]record.Token, error) {
	now := s.nowMillis()
	x := newExpression()
	x.exists(attrTokenState) // the replies of tokens are in the same table
	x.live(now)
	var start item
	if after != (record.TokenKey{}) {
		start = tokenItemKey(after)
	}
	var keys []record.TokenKey
	var found []storedToken
	err := s.scan(ctx, s.tables.Tokens, x, start, limit, func(it item) error {
		key, err := parseTokenKey(partitionOf(it))
		if err != nil {
			return err
		}
		t, err := s.decodeToken(key, it, now)
		if err != nil {
			return fmt.Errorf("token %s: %w", key, err)
		}
		keys, found = append(keys, key), append(found, t)
		return nil
	})
	var missing []int
	if err == nil {
		missing, err = s.complete(ctx, found)
	}
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	out := make([]record.Token, len(found))
	for i := range found {
		out[i] = found[i].Token
	}
	for _, i := range missing {
		again, err := s.loadTokens(ctx, keys[i:i+1])
		if err != nil {
			return nil, fmt.Errorf("list tokens: %w", err)
		}
		out[i] = again[0]
	}
	return out, nil
}

func parseTokenKey(pk string) (key record.TokenKey, err error) {
	if n, err := hex.Decode(key[:], []byte(pk)[:min(len(pk), hex.EncodedLen(len(key)))]); err != nil || n != len(key) {
		return key, fmt.Errorf("%w: %q is no token's key", record.ErrCorrupt, pk)
	}
	return key, nil
}

// scan shows f up to limit items behind a key that a condition takes.
func (s *Store) scan(ctx context.Context, table string, x *expression, start item, limit int, f func(item) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for limit > 0 {
		out, err := s.client.Scan(ctx, &dynamodb.ScanInput{
			TableName: &table, ConsistentRead: aws.Bool(true), ExclusiveStartKey: start, Limit: aws.Int32(int32(min(limit, math.MaxInt32))),
			FilterExpression: x.condition(), ExpressionAttributeNames: x.names, ExpressionAttributeValues: x.values,
		})
		if err != nil {
			return err
		}
		for _, it := range out.Items {
			if err := f(it); err != nil {
				return err
			}
		}
		limit -= len(out.Items)
		if start = out.LastEvaluatedKey; len(start) == 0 {
			return nil
		}
	}
	return nil
}

// Expire implements record.Lister. Where the tables' time-to-live is on, DynamoDB does it by itself, later and without a charge.
func (s *Store) Expire(ctx context.Context, limit int) (int, error) {
	n := 0
	for _, table := range []string{s.tables.Groups, s.tables.Tokens} {
		deleted, err := s.expireTable(ctx, table, limit-n)
		n += deleted
		if err != nil {
			return n, fmt.Errorf("expire records: %w", err)
		}
	}
	return n, nil
}

func (s *Store) expireTable(ctx context.Context, table string, limit int) (n int, err error) {
	now := s.nowMillis()
	x := newExpression()
	x.conditions = append(x.conditions, x.path(attrExpires)+"<="+x.value(integer(now)))
	err = s.scan(ctx, table, x, nil, limit, func(it item) error {
		key := item{attrPK: it[attrPK]}
		put(key, attrSK, it[attrSK])
		_, err := s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName: &table, Key: key, ConditionExpression: x.condition(), ExpressionAttributeNames: x.names, ExpressionAttributeValues: x.values,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureNone,
		})
		if _, failed := conditionFailed(err); failed {
			return nil // written anew since the scan
		}
		if err == nil {
			n++
		}
		return err
	})
	return n, err
}
