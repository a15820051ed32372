package dedup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

// ErrParents says that a message without a number waits for the entries of the log that it answers.
// It stays in its queue: no number names it among the held messages of the group.
var ErrParents = errors.New("the entries that it answers are not in the log yet")

// Waits reports whether the error of a message that is to be retried says that it waits for other
// messages. It is no failure of the message, and later messages of its group must pass it.
func Waits(err error) bool { return errors.Is(err, ErrBounds) || errors.Is(err, ErrParents) }

// awaitsParents returns the outcome of a message without a number if its parents are not in the
// log, and it must not run without them.
func (pl *plan) awaitsParents(it *item) (fate record.Outcome, waits bool) {
	missing := pl.next.MissingParent(&it.Message)
	if missing == 0 {
		return record.Outcome{}, false
	}
	gap, age := pl.part.stream.Gap, pl.now.Sub(it.Accepted)
	if it.Accepted.IsZero() {
		age = 0
	}
	pl.waits(age)
	switch {
	case gap.Policy == record.GapWait || age < gap.After:
		return record.Outcome{Err: ErrParents}, true
	case gap.Policy == record.GapFail:
		return admission.MissingParent(missing), true
	}
	pl.event(record.EventSkipped, 1, "")
	return record.Outcome{}, false
}

// endWaits applies the gap policy to the held messages that are next and have waited too long for
// their parents. moved reports whether it ran one: then others may be next, and it leaves the rest
// alone, because their parents may be among those.
func (pl *plan) endWaits(ctx context.Context) (moved bool, err error) {
	for _, key := range slices.Sorted(maps.Keys(pl.next.Sources)) {
		src := pl.next.Sources[key]
		if !src.Held.Contains(src.Next) || pl.more {
			continue
		}
		held, err := pl.cfg.Store.Held(ctx, record.HeldKey{Group: pl.next.Key, Source: key, Epoch: src.Epoch, Sequence: src.Next}, 1)
		if err != nil {
			return false, fmt.Errorf("load held messages: %w", err)
		}
		if len(held) == 0 || held[0].Message.Sequence != src.Next {
			return false, fmt.Errorf("load held messages: number %d is missing: %w", src.Next, errReload)
		}
		if moved, err := pl.endWait(ctx, key, &held[0]); moved || err != nil {
			return moved, err
		}
	}
	return false, nil
}

// endWait applies the gap policy to one held message. moved reports whether it ran.
func (pl *plan) endWait(ctx context.Context, key string, h *record.Held) (moved bool, err error) {
	missing := pl.next.MissingParent(&h.Message)
	if missing == 0 { // it waits for other sources, whose gaps have policies of their own
		return false, nil
	}
	gap, age := pl.part.stream.Gap, pl.now.Sub(h.At)
	pl.waits(age)
	switch {
	case gap.Policy == record.GapWait || age < gap.After:
		return false, nil
	case gap.Policy == record.GapFail:
		err := pl.evict(ctx, key, admission.MissingParent(missing))
		pl.more = len(pl.next.Sources[key].Held) > 0
		return false, err
	case !pl.next.Follows(&h.Message):
		return false, nil
	}
	if moved, err = pl.runHeld(ctx, key, h.Message); moved {
		pl.event(record.EventSkipped, 1, "")
	}
	return moved, err
}
