package dynamostore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once/internal/record"
)

// Commit implements record.Store. It does not write loaded entries again, so that the marks and
// removals of a concurrent Clear survive.
func (s *Store) Commit(ctx context.Context, c record.Commit) error {
	if err := s.commit(ctx, &c); err != nil {
		return fmt.Errorf("commit group %s: %w", c.Next.Key, err)
	}
	return nil
}

func (s *Store) commit(ctx context.Context, c *record.Commit) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	// A token is an item of another table: writing both takes a transaction, at twice the price.
	if len(c.Done) > 0 {
		return errors.New("the store marks no tokens done in a commit")
	}
	w, err := s.groupWrite(c)
	if err != nil {
		return err
	}
	if err := s.putClaims(ctx, w.claims); err != nil {
		return err
	}
	var d doubt
	var before item
	for round := 1; ; round++ {
		if before, err = s.send(ctx, c, w, &d); !s.tryAgain(ctx, round, err) {
			break
		}
	}
	stored, failed := conditionFailed(err)
	switch {
	case !failed:
		s.dropClaims(ctx, w.replaced(before))
		return err
	case ours(stored, c):
		return nil
	case d.exists():
		return errOverwritten
	default:
		s.dropClaims(ctx, w.unused(stored))
		return record.ErrConflict
	}
}

// send sends the write of a commit, in a transaction if it has other parts. It returns the replaced
// values for which the write asks.
func (s *Store) send(ctx context.Context, c *record.Commit, w write, d *doubt) (item, error) {
	if len(c.Hold)+len(c.Unhold)+len(c.Append) == 0 {
		return w.send(ctx, s.client, d)
	}
	return nil, s.transact(ctx, c, w, d)
}

// A write is the conditional write of one item: an update, or a put if the stored item does not
// matter.
type write struct {
	update *types.Update
	put    *types.Put
	// claims are the claims to which the write refers. returns asks for the replaced values: those
	// of entries by number, and the state.
	claims  []claim
	returns types.ReturnValue
	entries []string
	state   bool
}

// replaced returns the claims among the replaced values.
func (w *write) replaced(before item) []string {
	gone := item{}
	if w.state {
		gone[attrState] = before[attrState]
	}
	return append(claimsOf(gone), claimedEntries(before, w.entries)...)
}

// unused returns the claims of a write that was not applied. It leaves out claims to which the
// stored item refers, because an earlier call of the same attempt was applied.
func (w *write) unused(stored item) []string {
	used := claimsOf(stored)
	var names []string
	for _, c := range w.claims {
		if !slices.Contains(used, c.name) {
			names = append(names, c.name)
		}
	}
	return names
}

// groupWrite returns the write of a commit's group record.
func (s *Store) groupWrite(c *record.Commit) (write, error) {
	next := c.Next
	next.Pending = asStored(c)
	it := encodeGroup(&next, c.Attempt)
	claims := s.claimGroup(it, c.Next.Key, c.Attempt)
	if err := commitFits(c, it); err != nil {
		return write{}, err
	}
	x := newExpression()
	if c.Loaded.Version == 0 {
		x.absent(s.nowMillis())
		return write{claims: slices.Collect(maps.Values(claims)), put: &types.Put{
			TableName: &s.tables.Groups, Item: it, ConditionExpression: x.condition(), ExpressionAttributeNames: x.names, ExpressionAttributeValues: x.values,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}}, nil
	}
	x.equal(number(c.Loaded.Version), attrVersion)
	x.equal(number(c.Loaded.Incarnation), attrIncarnation)
	x.live(s.nowMillis())
	for _, name := range []string{attrFormat, attrVersion, attrAttempt, attrCommon, attrLast, attrSources, attrChained, attrTimers, attrUntil, attrLog, attrRetention, attrHeld, attrExpires, attrTTL} {
		x.set(it[name], name)
	}
	w := write{state: !bytes.Equal(c.Loaded.State, c.Next.State)}
	if w.state {
		x.set(it[attrState], attrState)
	}
	w.entries = setPending(x, c, it)
	w.claims = referred(x.values, claims)
	if s.mayClaim(&c.Loaded) {
		w.returns = types.ReturnValueUpdatedOld
	}
	w.update = &types.Update{
		TableName: &s.tables.Groups, Key: groupItemKey(c.Next.Key), UpdateExpression: x.update(), ConditionExpression: x.condition(),
		ExpressionAttributeNames: x.names, ExpressionAttributeValues: x.values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	return w, nil
}

// asStored returns the entries of the next record, with loaded ones in their stored form: they are
// not written again, and the common part must fit them.
func asStored(c *record.Commit) []record.Pending {
	if len(c.Loaded.Pending) == 0 {
		return c.Next.Pending
	}
	loaded := make(map[uint64]record.Pending, len(c.Loaded.Pending))
	for _, p := range c.Loaded.Pending {
		loaded[p.Number] = p
	}
	out := slices.Clone(c.Next.Pending)
	for i := range out {
		if p, ok := loaded[out[i].Number]; ok {
			out[i] = p
		}
	}
	return out
}

// maxChanges is how many entries an update may name: an expression is limited to 4 KB.
const maxChanges = 50

// setPending adds the new entries and removes the dropped ones, each by its number. It returns the
// numbers whose old values are replaced.
func setPending(x *expression, c *record.Commit, it item) (gone []string) {
	added, dropped := differ(c)
	if len(added)+len(dropped) > maxChanges {
		replacePending(x, c, it)
		for n := range numbers(c.Loaded.Pending) {
			gone = append(gone, numberName(n))
		}
		return gone
	}
	sent := entries(it, attrSent)
	for _, n := range added {
		x.set(entries(it, attrPending)[n], attrPending, n)
		if marks := sent[n]; marks != nil {
			x.set(marks, attrSent, n)
		}
	}
	for _, n := range dropped {
		x.set(nil, attrPending, n)
		x.set(nil, attrSent, n)
	}
	return dropped
}

// replacePending writes the map as a whole, because the changes do not fit into an expression. Its
// condition is that no Clear has removed an entry since the load: the map still has as many entries
// as were loaded, because only commits add some. The marks of sent effects are in another attribute
// and stay; those of new kept entries are added.
func replacePending(x *expression, c *record.Commit, it item) {
	x.size(len(c.Loaded.Pending), attrPending)
	x.set(it[attrPending], attrPending)
	sent := entries(it, attrSent)
	for i := range c.Next.Pending {
		if p := &c.Next.Pending[i]; p.Kept() && p.Number > c.Loaded.Last {
			x.set(sent[numberName(p.Number)], attrSent, numberName(p.Number))
		}
	}
}

func entries(it item, name string) item { return (&reader{item: it}).object(name) }

// differ returns the entries that a commit adds and drops.
func differ(c *record.Commit) (added, dropped []string) {
	loaded, next := numbers(c.Loaded.Pending), numbers(c.Next.Pending)
	for n := range next {
		if !loaded[n] {
			added = append(added, numberName(n))
		}
	}
	for n := range loaded {
		if !next[n] {
			dropped = append(dropped, numberName(n))
		}
	}
	slices.Sort(added)
	slices.Sort(dropped)
	return added, dropped
}

func numbers(pending []record.Pending) map[uint64]bool {
	out := make(map[uint64]bool, len(pending))
	for _, p := range pending {
		out[p.Number] = true
	}
	return out
}

// send sends the write alone, and returns the replaced values that it asked for.
func (w *write) send(ctx context.Context, client Client, d *doubt) (item, error) {
	if w.put != nil {
		_, err := client.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: w.put.TableName, Item: w.put.Item, ConditionExpression: w.put.ConditionExpression, ExpressionAttributeNames: w.put.ExpressionAttributeNames,
			ExpressionAttributeValues: w.put.ExpressionAttributeValues, ReturnValuesOnConditionCheckFailure: w.put.ReturnValuesOnConditionCheckFailure,
		}, d.watch)
		return nil, err
	}
	out, err := client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: w.update.TableName, Key: w.update.Key, UpdateExpression: w.update.UpdateExpression, ConditionExpression: w.update.ConditionExpression,
		ExpressionAttributeNames: w.update.ExpressionAttributeNames, ExpressionAttributeValues: w.update.ExpressionAttributeValues,
		ReturnValuesOnConditionCheckFailure: w.update.ReturnValuesOnConditionCheckFailure, ReturnValues: w.returns,
	}, d.watch)
	if err != nil {
		return nil, err
	}
	return out.Attributes, nil
}

// transact sends the write in a transaction with those of held messages and of the log's chunks.
func (s *Store) transact(ctx context.Context, c *record.Commit, w write, d *doubt) error {
	// a transaction must not contain an item twice
	changes := make(map[record.HeldKey]types.TransactWriteItem, len(c.Hold)+len(c.Unhold))
	for i := range c.Hold {
		key := heldKey(&c.Hold[i].Message)
		it, err := encodeHeld(key, &c.Hold[i])
		if err != nil {
			return err
		}
		changes[key] = types.TransactWriteItem{Put: &types.Put{TableName: &s.tables.Groups, Item: it}}
	}
	for _, key := range c.Unhold {
		changes[key] = types.TransactWriteItem{Delete: &types.Delete{TableName: &s.tables.Groups, Key: heldItemKey(key)}}
	}
	keys := slices.SortedFunc(maps.Keys(changes), compareHelds)
	all := []types.TransactWriteItem{{Update: w.update, Put: w.put}}
	// in a fixed order, because a request that is repeated with its token must be the same
	for _, key := range keys {
		all = append(all, changes[key])
	}
	for i := range c.Append {
		it, err := encodeChunk(&c.Append[i])
		if err != nil {
			return err
		}
		all = append(all, types.TransactWriteItem{Put: &types.Put{TableName: &s.tables.Groups, Item: it}})
	}
	_, err := s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: all, ClientRequestToken: aws.String(requestToken(c))}, d.watch)
	return err
}

// requestToken returns the name of a commit's try; DynamoDB limits it to 36 characters.
func requestToken(c *record.Commit) string {
	sum := sha256.Sum256([]byte(c.Attempt))
	return hex.EncodeToString(sum[:16])
}
