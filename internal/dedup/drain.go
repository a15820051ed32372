package dedup

import (
	"context"
	"fmt"
	"slices"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

// maxHold is how many bytes of messages one commit can hold: a DynamoDB transaction is limited to 4
// MB.
const maxHold = 3 << 20

// room returns how many held messages this commit can still put or delete.
func (pl *plan) room() int {
	return record.MaxCommitItems - len(pl.hold) - len(pl.unhold) - chunksOf(pl.entryBytes)
}

// drain runs the held messages of a source that are next.
func (pl *plan) drain(ctx context.Context, key string) (moved bool, err error) {
	for src := pl.next.Sources[key]; src.Held.Contains(src.Next) && !pl.more; src = pl.next.Sources[key] {
		if pl.room() == 0 {
			pl.more = true
			return moved, nil
		}
		from := record.HeldKey{Group: pl.next.Key, Source: key, Epoch: src.Epoch, Sequence: src.Next}
		held, err := pl.cfg.Store.Held(ctx, from, min(pl.room(), src.Held.From(src.Next)))
		if err != nil {
			return moved, fmt.Errorf("load held messages: %w", err)
		}
		if len(held) == 0 || held[0].Message.Sequence != src.Next {
			return moved, fmt.Errorf("load held messages: number %d is missing: %w", src.Next, errReload)
		}
		for _, h := range held {
			if !pl.next.Ready(&h.Message) {
				return moved, nil
			}
			ran, err := pl.runHeld(ctx, key, h.Message)
			if err != nil || !ran {
				return moved, err
			}
			moved = true
		}
	}
	return moved, nil
}

// runHeld runs one held message, if it is next.
func (pl *plan) runHeld(ctx context.Context, key string, m record.Message) (ran bool, err error) {
	src := pl.next.Sources[key]
	if m.Sequence != src.Next || pl.more {
		return false, nil
	}
	it := &item{Arrival: admission.Arrival{Message: m}}
	if _, err := it.Check(pl.streams); err != nil {
		return false, fmt.Errorf("load held messages: %w: %w", record.ErrCorrupt, err)
	}
	if pl.more = pl.room() <= 0; pl.more {
		return false, nil
	}
	if m.Void {
		return pl.void(key, src, &m)
	}
	fate, err := pl.run(ctx, it)
	if err != nil || pl.more {
		return false, err
	}
	if fate.Kind != record.Processed {
		pl.returnHeld(key, src, m, fate)
		return false, nil
	}
	pl.event(record.EventProcessed, 1, "")
	pl.passed(key, src, &m)
	pl.more = pl.ends()
	return true, nil
}

// returnHeld removes a held message that did not succeed from the group: it goes to the dead-letter
// queue if it is rejected, or else back to its own queue, which counts its failures. Its delivery
// was acknowledged when it was held, so without this it would never be delivered again.
func (pl *plan) returnHeld(key string, src record.Source, m record.Message, fate record.Outcome) {
	if fate.Kind == record.Rejected {
		pl.refused = append(pl.refused, record.Refused{Message: m, Reason: fate.Reason, Detail: fate.Detail})
		pl.event(record.EventRejected, 1, fate.Reason)
	} else {
		pl.failing = append(pl.failing, m)
	}
	src = pl.release(key, src, &m)
	src.GapSince = pl.now // the message did arrive, and may be redelivered
	pl.put(key, src)
}

// event records an event. The observer is called when the plan is committed.
func (pl *plan) event(name record.EventName, count int, reason record.Reason) {
	pl.events = append(pl.events, record.Event{Name: name, Stream: pl.next.Key.Stream, Count: count, Reason: reason})
}

// evict sends held messages of a source to the dead-letter queue, as many as one commit can delete.
func (pl *plan) evict(ctx context.Context, key string, fate record.Outcome) error {
	src := pl.next.Sources[key]
	if pl.room() == 0 {
		pl.more = true
		return nil
	}
	// Earlier numbers were released by this plan. The store still has them until the commit.
	from := record.HeldKey{Group: pl.next.Key, Source: key, Epoch: src.Epoch, Sequence: src.Held.First()}
	held, err := pl.cfg.Store.Held(ctx, from, pl.room())
	if err != nil {
		return fmt.Errorf("load held messages: %w", err)
	}
	if len(held) == 0 || slices.ContainsFunc(held, func(h record.Held) bool { return !src.Held.Contains(h.Message.Sequence) }) {
		return fmt.Errorf("load held messages: they differ from the record: %w", errReload)
	}
	for _, h := range held {
		pl.refused = append(pl.refused, record.Refused{Message: h.Message, Reason: fate.Reason, Detail: fate.Detail})
		src = pl.release(key, src, &h.Message)
	}
	pl.event(record.EventRejected, len(held), fate.Reason)
	pl.put(key, src)
	return nil
}
