package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/effectively-once/once/internal/dedup/encoding"
	"github.com/effectively-once/once/internal/record"
)

var errContended = errors.New("met other writers in every try")

// Clear implements record.Store. A clear of many numbers or marks takes several writes.
func (s *Store) Clear(ctx context.Context, c record.Clear) error {
	if err := s.clear(ctx, &c); err != nil {
		return fmt.Errorf("clear group %s: %w", c.Group, err)
	}
	return nil
}

func (s *Store) clear(ctx context.Context, c *record.Clear) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, part := range partsOf(c) {
		if err := s.settle(ctx, &part); err != nil {
			return err
		}
	}
	return nil
}

// partsOf splits a clear so that each part fits into one expression; usually there is one part.
// Only the last part sets the expiry, because it empties the record.
func partsOf(c *record.Clear) []record.Clear {
	numbers, sent, done := c.Numbers, slices.Sorted(maps.Keys(c.Sent)), c.Done
	var parts []record.Clear
	for len(parts) == 0 || len(numbers)+len(sent)+len(done) > 0 {
		n, m, k := min(len(numbers), maxChanges), min(len(sent), maxChanges), min(len(done), maxKept)
		part := record.Clear{Group: c.Group, Incarnation: c.Incarnation, Numbers: numbers[:n], Done: done[:k], Sent: make(map[uint64][]record.Sent, m)}
		for _, number := range sent[:m] {
			part.Sent[number] = c.Sent[number]
		}
		numbers, sent, done, parts = numbers[n:], sent[m:], done[k:], append(parts, part)
	}
	last := &parts[len(parts)-1]
	last.Now, last.Retention, last.Until = c.Now, c.Retention, c.Until
	return parts
}

// maxKept is how many entries one write replaces by their kept form. Usually there is one.
const maxKept = 10

// A sight is the assumed content of the stored item.
type sight struct {
	pending []uint64
	kept    []uint64 // those of pending that are kept already
	sent    item     // by number
	held    bool
	expires bool
	keep    time.Duration // its retention
	until   time.Time     // the end of its log, and [record.Group.NeededUntil] of what the clear leaves
}

// guess returns the usual content: exactly the entries to clear, with none marked as sent before,
// and the retention of the record that the caller has read.
func guess(c *record.Clear) *sight {
	g := &sight{pending: slices.Clone(c.Numbers), keep: c.Retention, until: c.Until}
	for n := range c.Sent {
		if !slices.Contains(g.pending, n) {
			g.pending = append(g.pending, n)
		}
	}
	for i := range c.Done {
		g.pending = append(g.pending, c.Done[i].Number)
	}
	return g
}

// settle writes based on a guess first. If the condition fails, it writes again based on the
// returned item.
func (s *Store) settle(ctx context.Context, c *record.Clear) error {
	g := guess(c)
	for round := range rounds {
		x, gone, err := s.clearing(c, g)
		if err != nil || x == nil {
			return err
		}
		in := &dynamodb.UpdateItemInput{
			TableName: &s.tables.Groups, Key: groupItemKey(c.Group), UpdateExpression: x.update(), ConditionExpression: x.condition(),
			ExpressionAttributeNames: x.names, ExpressionAttributeValues: x.values,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}
		if s.options.Claims != nil {
			in.ReturnValues = types.ReturnValueUpdatedOld
		}
		out, err := s.client.UpdateItem(ctx, in)
		if err == nil {
			s.dropClaims(ctx, claimedEntries(out.Attributes, names(gone)))
			return nil
		}
		if s.tryAgain(ctx, round+1, err) {
			continue
		}
		found, failed := conditionFailed(err)
		if !failed {
			return err
		}
		if g, err = s.look(c, found); err != nil || g == nil {
			return err
		}
	}
	return errContended
}

func names(numbers []uint64) []string {
	out := make([]string, len(numbers))
	for i, n := range numbers {
		out[i] = numberName(n)
	}
	return out
}

// look reads the parts of an item that a clear needs, or returns nil if there is nothing to clear.
func (s *Store) look(c *record.Clear, it item) (*sight, error) {
	hollow(it)
	found, err := decodeGroup(c.Group, it, s.nowMillis())
	if err != nil || found.Incarnation != c.Incarnation {
		return nil, err
	}
	g := &sight{sent: entries(it, attrSent), held: it[attrHeld] != nil, expires: it[attrExpires] != nil, keep: found.Retention}
	for _, p := range found.Pending {
		g.pending = append(g.pending, p.Number)
		if p.Kept() {
			g.kept = append(g.kept, p.Number)
		}
	}
	found.Pending = slices.DeleteFunc(found.Pending, func(p record.Pending) bool { return slices.Contains(c.Numbers, p.Number) })
	g.until = latest(found.Log.Until, found.NeededUntil())
	return g, nil
}

// clearing returns the update that applies a clear to the assumed content, or nil if there is
// nothing to change, and the numbers of the entries that it removes or replaces.
func (s *Store) clearing(c *record.Clear, g *sight) (x *expression, gone []uint64, err error) {
	x = newExpression()
	x.equal(number(c.Incarnation), attrIncarnation)
	x.live(s.nowMillis())
	busy, until := false, latest(c.Now.Add(g.keep), g.until)
	for _, n := range g.pending {
		switch done := slices.IndexFunc(c.Done, func(p record.Pending) bool { return p.Number == n }); {
		case slices.Contains(c.Numbers, n):
			gone = append(gone, n)
			x.set(nil, attrPending, numberName(n))
			x.set(nil, attrSent, numberName(n))
		case slices.Contains(g.kept, n):
		case done >= 0:
			gone = append(gone, n)
			keep(x, c.Group, &c.Done[done], g.sent[numberName(n)])
			until = latest(until, c.Done[done].DoneUntil)
		default:
			busy = true
			if err := markSent(x, numberName(n), g.sent[numberName(n)], c.Sent[n]); err != nil {
				return nil, nil, err
			}
		}
	}
	idle := !busy && !g.held && !g.expires && !c.Now.IsZero()
	if idle && g.keep > 0 {
		expire(x, until, g.pending)
	}
	if len(x.sets)+len(x.removes) == 0 {
		return nil, nil, nil
	}
	if idle {
		x.keeps(g.keep)
	}
	return x, gone, nil
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// keep replaces an entry by its kept form, on the condition that the entry exists and has the
// assumed marks, so that it is not kept already. The common part of the item stays true, because it
// follows from what both forms have in common.
func keep(x *expression, key record.GroupKey, p *record.Pending, seen types.AttributeValue) {
	n := numberName(p.Number)
	x.exists(attrPending, n)
	if seen == nil {
		x.missing(attrSent, n)
	} else {
		x.equal(seen, attrSent, n)
	}
	x.set(encoded(func(e *encoding.Encoder) { writeEntry(e, key, p, commonOf(p, common{})) }), attrPending, n)
	x.set(encodeKept(p), attrSent, n)
}

// expire sets the expiry of an idle record, on the condition that it has the assumed entries,
// nothing held, and no timer that needs it for longer. The clear leaves none of the entries but kept
// ones.
func expire(x *expression, at time.Time, assumed []uint64) {
	x.size(len(assumed), attrPending)
	for _, n := range assumed {
		x.exists(attrPending, numberName(n))
	}
	x.missing(attrHeld)
	x.missing(attrExpires)
	x.notAfter(at, attrUntil)
	x.set(instant(at), attrExpires)
	x.set(ttl(at), attrTTL)
}

// markSent adds the sent marks of an entry, on the condition that the entry exists and has the
// assumed marks.
func markSent(x *expression, n string, seen types.AttributeValue, add []record.Sent) error {
	var marks []record.Sent
	r := &reader{item: item{n: seen}}
	if seen != nil {
		r.record(n, func(d *encoding.Decoder) { marks = encoding.ListOf(d, encoding.ReadSent) })
	}
	if r.err != nil {
		return r.err
	}
	before := len(marks)
	for _, mark := range add {
		if !slices.Contains(marks, mark) {
			marks = append(marks, mark)
		}
	}
	if len(marks) == before {
		return nil
	}
	x.exists(attrPending, n)
	if seen == nil {
		x.missing(attrSent, n)
	} else {
		x.equal(seen, attrSent, n)
	}
	x.set(encodeSent(marks), attrSent, n)
	return nil
}
