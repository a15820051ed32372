package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once/internal/record"
)

// batchGet is how many items DynamoDB reads in one call.
const batchGet = 100

var errLeft = errors.New("DynamoDB left a part undone")

// Load implements record.Store.
func (s *Store) Load(ctx context.Context, groups []record.GroupKey, tokens []record.TokenKey) ([]record.Group, []record.Token, error) {
	gs, err := s.loadGroups(ctx, groups)
	if err != nil {
		return nil, nil, fmt.Errorf("load groups: %w", err)
	}
	ts, err := s.loadTokens(ctx, tokens, repliesIn(gs))
	if err != nil {
		return nil, nil, fmt.Errorf("load tokens: %w", err)
	}
	return gs, ts, nil
}

// loadGroups reads groups and their claims. If a claim is gone, its group has been rewritten in the
// meantime, and all groups are read again.
func (s *Store) loadGroups(ctx context.Context, keys []record.GroupKey) ([]record.Group, error) {
	for round := 1; ; round++ {
		groups, err := s.readGroups(ctx, keys)
		switch {
		case !errors.Is(err, errClaimGone):
			return groups, err
		case round == rounds:
			return nil, fmt.Errorf("%w: %w", record.ErrCorrupt, err)
		}
		if err := s.options.Pause(ctx, round); err != nil {
			return nil, err
		}
	}
}

func (s *Store) readGroups(ctx context.Context, keys []record.GroupKey) ([]record.Group, error) {
	now := s.nowMillis()
	itemKeys := make([]item, len(keys))
	for i, key := range keys {
		itemKeys[i] = groupItemKey(key)
	}
	items, err := s.read(ctx, s.tables.Groups, itemKeys)
	if err != nil {
		return nil, err
	}
	out := make([]record.Group, len(keys))
	for i, key := range keys {
		if out[i], err = s.wholeGroup(ctx, key, items[partition(key)], now); err != nil {
			return nil, fmt.Errorf("group %s: %w", key, err)
		}
	}
	return out, nil
}

// loadTokens reads tokens and then their separate replies, except for those in atHand. If a reply
// is gone, its token has been rewritten in the meantime, and is read again.
func (s *Store) loadTokens(ctx context.Context, keys []record.TokenKey, atHand replies) ([]record.Token, error) {
	out := make([]record.Token, len(keys))
	places := make([]int, len(keys)) // indexes in out of the keys that are still to be read
	for i := range places {
		places[i] = i
	}
	for round := 1; ; round++ {
		found, err := s.readTokens(ctx, keys)
		if err != nil {
			return nil, err
		}
		missing, err := s.complete(ctx, found, atHand)
		if err != nil {
			return nil, err
		}
		for i, t := range found {
			out[places[i]] = t.Token
		}
		if len(missing) == 0 {
			return out, nil
		}
		if round == rounds {
			return nil, fmt.Errorf("%w: token %s has lost its reply", record.ErrCorrupt, keys[missing[0]])
		}
		keys, places = pick(keys, missing), pick(places, missing)
		if err := s.options.Pause(ctx, round); err != nil {
			return nil, err
		}
	}
}

func pick[T any](list []T, indexes []int) []T {
	out := make([]T, len(indexes))
	for i, index := range indexes {
		out[i] = list[index]
	}
	return out
}

// TokenStates implements record.StateReader: it reads no separate replies.
func (s *Store) TokenStates(ctx context.Context, tokens []record.TokenKey) ([]record.Token, error) {
	found, err := s.readTokens(ctx, tokens)
	if err != nil {
		return nil, fmt.Errorf("load tokens: %w", err)
	}
	out := make([]record.Token, len(found))
	for i, t := range found {
		out[i] = t.Token
	}
	return out, nil
}

func (s *Store) readTokens(ctx context.Context, keys []record.TokenKey) ([]storedToken, error) {
	now := s.nowMillis()
	itemKeys := make([]item, len(keys))
	for i, key := range keys {
		itemKeys[i] = tokenItemKey(key)
	}
	items, err := s.read(ctx, s.tables.Tokens, itemKeys)
	if err != nil {
		return nil, err
	}
	out := make([]storedToken, len(keys))
	for i, key := range keys {
		if out[i], err = decodeToken(key, items[key.String()], now); err != nil {
			return nil, fmt.Errorf("token %s: %w", key, err)
		}
	}
	return out, nil
}

// read reads items, strongly consistent, and returns them by partition key. The caller may not ask
// for two items of one partition.
func (s *Store) read(ctx context.Context, table string, keys []item) (map[string]item, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(keys) == 1 {
		out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{TableName: &table, Key: keys[0], ConsistentRead: aws.Bool(true)})
		if err != nil {
			return nil, err
		}
		return map[string]item{partitionOf(keys[0]): out.Item}, nil
	}
	found := make(map[string]item, len(keys))
	for chunk := range slices.Chunk(keys, batchGet) {
		if err := s.readBatch(ctx, table, chunk, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (s *Store) readBatch(ctx context.Context, table string, keys []item, found map[string]item) error {
	for round := 1; ; round++ {
		out, err := s.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{
			RequestItems: map[string]types.KeysAndAttributes{table: {Keys: keys, ConsistentRead: aws.Bool(true)}},
		})
		if err != nil {
			return err
		}
		for _, it := range out.Responses[table] {
			found[partitionOf(it)] = it
		}
		if keys = out.UnprocessedKeys[table].Keys; len(keys) == 0 {
			return nil
		}
		if round == rounds {
			return errLeft
		}
		if err := s.options.Pause(ctx, round); err != nil {
			return err
		}
	}
}

func partitionOf(it item) string { return (&reader{item: it}).text(attrPK) }
