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

// Groups implements record.Lister. It scans the whole table, in DynamoDB's order. An after key
// without a group sorts before all others.
func (s *Store) Groups(ctx context.Context, stream string, after record.GroupKey, limit int) ([]record.Group, error) {
	return s.groups(ctx, stream, after, limit, walk{consistent: true})
}

// Glance returns groups of all streams as Groups does, for half the price. It is eventually
// consistent: recent writes may be missing. It is for sweeps, which load each group before they act
// on it.
func (s *Store) Glance(ctx context.Context, after record.GroupKey, limit int) ([]record.Group, error) {
	return s.groups(ctx, "", after, limit, walk{})
}

func (s *Store) groups(ctx context.Context, stream string, after record.GroupKey, limit int, w walk) ([]record.Group, error) {
	now := s.nowMillis()
	x := newExpression()
	x.equal(str(stateKey), attrSK)
	x.live(now)
	if stream != "" {
		x.conditions = append(x.conditions, "begins_with("+x.path(attrPK)+","+x.value(str(stream+"#"))+")")
	}
	w.table, w.x, w.limit = s.tables.Groups, x, limit
	if after.Group != "" {
		w.start = groupItemKey(after)
	}
	var out []record.Group
	var corrupt error
	err := s.scan(ctx, w, func(page []item) (int, error) {
		before := len(out)
		for _, it := range page {
			g, err := s.listGroup(ctx, it, now)
			switch {
			case errors.Is(err, record.ErrCorrupt):
				corrupt = cmp.Or(corrupt, err)
			case err != nil:
				return 0, err
			case g.Version > 0:
				out = append(out, g)
			}
		}
		return len(out) - before, nil
	})
	if err = cmp.Or(err, corrupt); err != nil {
		return out, fmt.Errorf("list groups: %w", err)
	}
	return out, nil
}

// listGroup decodes a scanned item, without large parts. If a claim is gone, the group has been
// rewritten since the scan, and is loaded again.
func (s *Store) listGroup(ctx context.Context, it item, now int64) (record.Group, error) {
	key, ok := parsePartition(partitionOf(it))
	if !ok {
		return record.Group{}, fmt.Errorf("%w: partition without a stream", record.ErrCorrupt)
	}
	if _, claimed := it[attrState].(*types.AttributeValueMemberS); claimed {
		delete(it, attrState)
	}
	claimed := claimsOf(it)
	g, err := s.wholeGroup(ctx, key, it, now)
	if errors.Is(err, errClaimGone) {
		var again []record.Group
		if again, err = s.loadGroups(ctx, []record.GroupKey{key}); err == nil {
			g = again[0]
		}
	}
	if err != nil {
		return g, fmt.Errorf("group %s: %w", key, err)
	}
	if len(claimed) > 0 {
		dropBodies(&g)
	}
	if s.options.Claims != nil && len(g.State) > s.options.ClaimAbove {
		g.State = nil
	}
	return g, nil
}

// dropBodies removes everything but the entries themselves and their blobs, which sweeps look for.
func dropBodies(g *record.Group) {
	for i := range g.Pending {
		p := &g.Pending[i]
		p.Reply = nil
		for j := range p.Effects {
			p.Effects[j].Body, p.Effects[j].Headers = nil, nil
		}
	}
}

// Tokens implements record.Lister, as Groups does.
func (s *Store) Tokens(ctx context.Context, after record.TokenKey, limit int) ([]record.Token, error) {
	now := s.nowMillis()
	x := newExpression()
	x.exists(attrTokenState) // skips the items of replies, which are in the same table
	x.live(now)
	w := walk{table: s.tables.Tokens, x: x, limit: limit, consistent: true}
	if after != (record.TokenKey{}) {
		w.start = tokenItemKey(after)
	}
	var out []record.Token
	var corrupt error
	err := s.scan(ctx, w, func(page []item) (int, error) {
		before := len(out)
		var found []storedToken
		for _, it := range page {
			t, err := s.listToken(it, now)
			if err != nil {
				corrupt = cmp.Or(corrupt, err)
				continue
			}
			found = append(found, t)
		}
		err := s.listReplies(ctx, found, func(t record.Token, err error) {
			if corrupt = cmp.Or(corrupt, err); err == nil && t.State != record.Absent {
				out = append(out, t)
			}
		})
		return len(out) - before, err
	})
	if err = cmp.Or(err, corrupt); err != nil {
		return out, fmt.Errorf("list tokens: %w", err)
	}
	return out, nil
}

// listToken decodes a scanned item. Every error wraps record.ErrCorrupt.
func (s *Store) listToken(it item, now int64) (storedToken, error) {
	key, err := parseTokenKey(partitionOf(it))
	if err != nil {
		return storedToken{}, err
	}
	t, err := decodeToken(key, it, now)
	if err != nil {
		return t, fmt.Errorf("token %s: %w", key, err)
	}
	return t, nil
}

// listReplies calls f with each token and its reply. The replies are read together. If one of them
// is corrupt or has been replaced since the scan, the tokens are read one by one.
func (s *Store) listReplies(ctx context.Context, found []storedToken, f func(t record.Token, corrupt error)) error {
	missing, err := s.complete(ctx, found, nil)
	if err != nil && !errors.Is(err, record.ErrCorrupt) {
		return err
	}
	whole := err == nil && len(missing) == 0
	for _, t := range found {
		token := t.Token
		if !whole {
			token, err = s.current(ctx, t)
		}
		if err != nil && !errors.Is(err, record.ErrCorrupt) {
			return err
		}
		f(token, err)
	}
	return nil
}

func parseTokenKey(pk string) (key record.TokenKey, err error) {
	if n, err := hex.Decode(key[:], []byte(pk)[:min(len(pk), hex.EncodedLen(len(key)))]); err != nil || n != len(key) {
		return key, fmt.Errorf("%w: %q is no token's key", record.ErrCorrupt, pk)
	}
	return key, nil
}

// A walk is a range of a table: the items after a key that meet a condition, up to a limit.
type walk struct {
	table      string
	x          *expression
	start      item
	limit      int
	consistent bool
}

// scan calls f with the items of a walk, page by page, until f has taken as many as the limit.
func (s *Store) scan(ctx context.Context, w walk, f func([]item) (taken int, err error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for w.limit > 0 {
		out, err := s.client.Scan(ctx, &dynamodb.ScanInput{
			TableName: &w.table, ConsistentRead: &w.consistent, ExclusiveStartKey: w.start, Limit: aws.Int32(int32(min(w.limit, math.MaxInt32))),
			FilterExpression: w.x.condition(), ExpressionAttributeNames: w.x.names, ExpressionAttributeValues: w.x.values,
		})
		if err != nil {
			return err
		}
		taken, err := f(out.Items)
		if err != nil {
			return err
		}
		w.limit -= taken
		if w.start = out.LastEvaluatedKey; len(w.start) == 0 {
			return nil
		}
	}
	return nil
}

// Expire implements record.Lister. If time-to-live is enabled on the tables, DynamoDB deletes
// expired items by itself, later and free of charge.
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
	err = s.scan(ctx, walk{table: table, x: x, limit: limit, consistent: true}, func(page []item) (deleted int, err error) {
		for _, it := range page {
			key := item{attrPK: it[attrPK]}
			put(key, attrSK, it[attrSK])
			_, err := s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
				TableName: &table, Key: key, ConditionExpression: x.condition(), ExpressionAttributeNames: x.names, ExpressionAttributeValues: x.values,
				ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureNone,
			})
			if _, failed := conditionFailed(err); failed {
				continue // rewritten since the scan
			}
			if err != nil {
				return deleted, err
			}
			deleted, n = deleted+1, n+1
		}
		return deleted, nil
	})
	return n, err
}
