package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// ErrNotPending says that no effect with a number is pending: it was sent, or there never was one.
var ErrNotPending = errors.New("no such effect is pending")

// errSkipBlob says that an effect can't be skipped because it is a blob.
var errSkipBlob = errors.New("a blob can't be skipped: it has no destination")

// errSkipTimer says that the message of a timer can't be skipped: only a message of the group can
// cancel the timer.
var errSkipTimer = errors.New("the message of a timer can't be skipped: let a message of the group cancel the timer")

// skipTime is the delay of the trigger after a skip. With a delay, the trigger does not wait behind
// the one that failed, which may be hidden for long.
const skipTime = time.Second

// Skip makes a pending effect of a group a dead letter for each destination that it was not sent to
// yet, and asks for publishing of the effects behind it. It returns these destinations, or
// [ErrNotPending]. A blob can't be skipped.
//
// A publisher may send the effect at the same time: then it is sent and a dead letter. After an
// error the effect may be a dead letter and pending; Skip may be repeated, which may make a second
// letter.
func (p *Publisher) Skip(ctx context.Context, key record.GroupKey, number uint64) (to []string, err error) {
	groups, _, err := p.cfg.Store.Load(ctx, []record.GroupKey{key}, nil)
	if err != nil {
		return nil, fmt.Errorf("load group: %w", err)
	}
	g := groups[0]
	entry, i, ok := effectOf(&g, number)
	if !ok {
		return nil, ErrNotPending
	}
	if entry.Effects[i].Blob != nil {
		return nil, errSkipBlob
	}
	if entry.Effects[i].Timer != "" {
		return nil, errSkipTimer
	}
	pub := newPublication(g)
	var letters []record.Refused
	if pub.list, err = p.newShipments(&g, entry, i); err != nil {
		return nil, err
	}
	for _, s := range pub.list {
		to = append(to, s.To)
		letters = append(letters, record.Refused{Delivery: &s.Delivery, To: s.To, Reason: record.ReasonUndeliverable, Detail: "skipped by an operator"})
	}
	if len(to) == 0 {
		return nil, ErrNotPending
	}
	if err := p.cfg.Queues.DeadLetter(ctx, letters); err != nil {
		return to, fmt.Errorf("dead-letter effect: %w", err)
	}
	// only this entry is settled; if it has a blob, a publisher clears it, after the blob
	pub.group.Pending = []record.Pending{*entry}
	if slices.ContainsFunc(entry.Effects, func(f record.Effect) bool { return f.Blob != nil }) {
		pub.stop = entry.Number
	}
	if err := p.finish(ctx, []*publication{pub})[0]; err != nil {
		return to, err
	}
	if err := p.cfg.Queues.Trigger(ctx, []record.GroupKey{key}, skipTime); err != nil {
		return to, fmt.Errorf("trigger publishing: %w", err)
	}
	return to, nil
}

// effectOf returns the entry and the index of the effect with a number.
func effectOf(g *record.Group, number uint64) (entry *record.Pending, i int, ok bool) {
	for at := range g.Pending {
		p := &g.Pending[at]
		if p.Number <= number && number-p.Number < uint64(len(p.Effects)) {
			return p, int(number - p.Number), true //nolint:gosec // an index
		}
	}
	return nil, 0, false
}
