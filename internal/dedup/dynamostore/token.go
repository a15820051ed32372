package dynamostore

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once/internal/dedup/encoding"
	"github.com/effectively-once/once/internal/record"
)

// SwapToken implements record.Store. A next token that is Absent deletes the record.
func (s *Store) SwapToken(ctx context.Context, old, next record.Token) (record.Token, error) {
	t, err := s.swapToken(ctx, &old, &next)
	if err != nil {
		return t, fmt.Errorf("swap token %s: %w", next.Key, err)
	}
	return t, nil
}

func (s *Store) swapToken(ctx context.Context, old, next *record.Token) (record.Token, error) {
	if err := ctx.Err(); err != nil {
		return record.Token{}, err
	}
	now := s.nowMillis()
	x := newExpression()
	if old.State == record.Absent {
		x.absent(now)
	} else {
		x.equal(number(uint64(old.State)), attrTokenState)
		x.equal(owner(old), attrOwner)
		x.equal(number(old.Epoch), attrEpoch)
		x.live(now)
	}
	var d doubt
	err := s.putToken(ctx, next, x, &d)
	it, failed := conditionFailed(err)
	if err == nil {
		s.dropReply(ctx, old, next)
		return *next, nil
	}
	if !failed {
		return record.Token{}, err
	}
	found, err := decodeToken(next.Key, it, now)
	switch {
	case err != nil:
		return record.Token{}, err
	case same(&found.Token, next):
		s.dropReply(ctx, old, next)
		return *next, nil
	case d.exists():
		return record.Token{}, errOverwritten
	}
	stored, err := s.current(ctx, found)
	if err != nil {
		return record.Token{}, err
	}
	// no writer can write next, and with it the same reply, any more
	if stored.State == record.Done {
		s.dropReply(ctx, next, &stored)
	}
	return stored, record.ErrConflict
}

// current completes the token that a failed condition returned.
func (s *Store) current(ctx context.Context, found storedToken) (record.Token, error) {
	tokens := []storedToken{found}
	missing, err := s.complete(ctx, tokens, nil)
	if err != nil || len(missing) == 0 {
		return tokens[0].Token, err
	}
	again, err := s.loadTokens(ctx, []record.TokenKey{found.Key}, nil)
	if err != nil {
		return record.Token{}, err
	}
	return again[0], nil
}

// putToken writes a token, or deletes it, on a condition.
func (s *Store) putToken(ctx context.Context, t *record.Token, x *expression, d *doubt) error {
	if t.State == record.Absent {
		_, err := s.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName: &s.tables.Tokens, Key: tokenItemKey(t.Key), ConditionExpression: x.condition(), ExpressionAttributeNames: x.names,
			ExpressionAttributeValues: x.values, ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}, d.watch)
		return err
	}
	it, reply, err := encodeToken(t)
	if err != nil {
		return err
	}
	if err := s.putReply(ctx, reply); err != nil {
		return err
	}
	_, err = s.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &s.tables.Tokens, Item: it, ConditionExpression: x.condition(), ExpressionAttributeNames: x.names,
		ExpressionAttributeValues: x.values, ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, d.watch)
	return err
}

// same reports whether two tokens are equal in the fields that the condition of a swap compares.
func same(a, b *record.Token) bool {
	if a.State == record.Absent {
		return b.State == record.Absent
	}
	return a.State == b.State && a.Owner == b.Owner && a.Epoch == b.Epoch
}

// batchWrite is how many items DynamoDB writes in one call.
const batchWrite = 25

// MarkDone implements record.Store.
func (s *Store) MarkDone(ctx context.Context, tokens []record.Token) error {
	if err := s.markDone(ctx, tokens); err != nil {
		return fmt.Errorf("mark %d tokens done: %w", len(tokens), err)
	}
	return nil
}

func (s *Store) markDone(ctx context.Context, tokens []record.Token) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// a batch must not contain a key twice
	latest, replies := map[string]types.WriteRequest{}, map[string]types.WriteRequest{}
	for i := range tokens {
		it, reply, err := encodeToken(&tokens[i])
		if err != nil {
			return err
		}
		latest[partitionOf(it)] = types.WriteRequest{PutRequest: &types.PutRequest{Item: it}}
		if reply != nil {
			replies[partitionOf(reply)] = types.WriteRequest{PutRequest: &types.PutRequest{Item: reply}}
		}
	}
	if err := s.writeAll(ctx, replies); err != nil {
		return err
	}
	return s.writeAll(ctx, latest)
}

// writeAll puts items without a condition.
func (s *Store) writeAll(ctx context.Context, items map[string]types.WriteRequest) error {
	writes := slices.Collect(maps.Values(items))
	if len(writes) == 1 {
		_, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.tables.Tokens, Item: writes[0].PutRequest.Item})
		return err
	}
	for chunk := range slices.Chunk(writes, batchWrite) {
		if err := s.writeBatch(ctx, chunk); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) writeBatch(ctx context.Context, writes []types.WriteRequest) error {
	for round := 1; ; round++ {
		out, err := s.client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{s.tables.Tokens: writes}})
		if err != nil {
			return err
		}
		if writes = out.UnprocessedItems[s.tables.Tokens]; len(writes) == 0 {
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

// owner returns the attribute for the owner. It is never nil, because conditions compare it.
func owner(t *record.Token) types.AttributeValue {
	if v := text(t.Owner); v != nil {
		return v
	}
	return str("")
}

// encodeToken returns the item of a token, and the item of its reply if the reply has one.
func encodeToken(t *record.Token) (it, reply item, err error) {
	it = tokenItemKey(t.Key)
	it[attrFormat] = number(format)
	it[attrTokenState], it[attrOwner], it[attrEpoch] = number(uint64(t.State)), owner(t), number(t.Epoch)
	if t.Fingerprint != (record.Fingerprint{}) {
		it[attrFingerprint] = binary(t.Fingerprint[:])
	}
	put(it, attrStream, text(t.Stream))
	put(it, attrGroup, text(t.Group))
	put(it, attrLease, instant(t.Lease))
	put(it, attrReason, text(string(t.Reason)))
	put(it, attrDetail, text(t.Detail))
	put(it, attrExpires, instant(t.Expires))
	put(it, attrTTL, ttl(t.Expires))
	if reply, err = replyOf(t); err != nil {
		return nil, nil, err
	}
	switch {
	case reply != nil:
		it[attrReplyKey] = reply[attrPK]
	case t.Reply != nil:
		it[attrReply] = encoded(func(e *encoding.Encoder) { encoding.WriteReply(e, t.Reply) })
	}
	if t.Request != nil {
		it[attrRequest] = encoded(func(e *encoding.Encoder) { encoding.WriteMessage(e, t.Request) })
	}
	return it, reply, fits(it)
}

// decodeToken reads an item. A missing or expired item is an absent token.
func decodeToken(key record.TokenKey, it item, now int64) (storedToken, error) {
	r := &reader{item: it}
	absent := storedToken{Token: record.Token{Key: key}}
	if len(it) == 0 {
		return absent, nil
	}
	if r.checkFormat(); expired(r, now) {
		return absent, r.err
	}
	r.need(attrOwner, attrEpoch)
	t := record.Token{
		Key: key, State: r.state(), Stream: r.text(attrStream), Group: r.text(attrGroup), Owner: r.text(attrOwner), Epoch: r.number(attrEpoch),
		Lease: r.instant(attrLease), Reason: record.Reason(r.text(attrReason)), Detail: r.text(attrDetail), Expires: r.instant(attrExpires),
	}
	if fp := r.binary(attrFingerprint); fp != nil && (copy(t.Fingerprint[:], fp) != len(t.Fingerprint) || len(fp) != len(t.Fingerprint)) {
		r.fail(attrFingerprint, "is no hash")
	}
	r.record(attrReply, func(d *encoding.Decoder) { t.Reply = encoding.ReadReply(d) })
	r.record(attrRequest, func(d *encoding.Decoder) {
		t.Request = &record.Message{}
		encoding.ReadMessage(d, t.Request)
	})
	reference := r.text(attrReplyKey)
	if r.err != nil {
		return absent, r.err
	}
	return storedToken{Token: t, reply: reference}, nil
}

func (r *reader) state() record.TokenState {
	n := r.number(attrTokenState)
	if n == uint64(record.Absent) || n > uint64(record.Done) {
		r.fail(attrTokenState, "is none")
		return record.Absent
	}
	return record.TokenState(n)
}
