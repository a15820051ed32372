package dedup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

// ErrBounds says that a message is too far ahead of its predecessors to be held. It stays in its
// queue.
var ErrBounds = errors.New("too far ahead: the bounds on held messages are reached")

// bySequence runs every message that continues a sequence, delivered or held, until none is left;
// it holds the rest. A worker must not acknowledge while a message in its view could run, because
// the delivery of a held message may have been acknowledged before its predecessor arrived.
func (pl *plan) bySequence(ctx context.Context) error {
	for progress := true; progress && !pl.more; {
		var err error
		if progress, err = pl.arriveAll(ctx, false); err != nil {
			return err
		}
		held := pl.next.HasHeld()
		if held {
			for _, key := range slices.Sorted(maps.Keys(pl.next.Sources)) {
				moved, err := pl.drain(ctx, key)
				if err != nil {
					return err
				}
				progress = progress || moved
			}
		}
		if !progress { // the end of a log is behind all messages that can be processed
			if progress, err = pl.arriveAll(ctx, true); err != nil {
				return err
			}
		}
		if progress || !held || !pl.part.sweeping || pl.more {
			continue
		}
		if progress, err = pl.endWaits(ctx); err != nil {
			return err
		}
	}
	return pl.holdRest(ctx)
}

// arriveAll decides the delivered messages that are not ahead of the sequence: either those that
// only end the log, or all others. It reports whether a source has changed.
func (pl *plan) arriveAll(ctx context.Context, ends bool) (progress bool, err error) {
	for _, it := range pl.part.items {
		if !pl.undecided(it) || it.OnlyEnds() != ends || pl.more {
			continue
		}
		moved, err := pl.arrive(ctx, it)
		if err != nil {
			return false, err
		}
		progress = progress || moved
	}
	return progress, nil
}

func (pl *plan) undecided(it *item) bool {
	return it.ByNumber && it.open() && it.plan != pl
}

// arrive decides a delivered message that is not ahead of the sequence. moved is true if the source
// has changed, so that other messages may be next.
func (pl *plan) arrive(ctx context.Context, it *item) (moved bool, err error) {
	pl.part.trigger, pl.part.numbered = true, true
	key := it.SourceKey()
	src, known := pl.next.Sources[key]
	entry, pending := it.Entry(&pl.next, pl.now)
	switch {
	case pl.failed:
		pl.decide(it, record.Outcome{Err: record.ErrBlocked})
		return false, nil
	case pending:
		pl.committed(it, entry)
		return false, nil
	case known && it.Epoch < src.Epoch:
		pl.decide(it, admission.StaleEpoch())
		return false, nil
	case pl.next.Log.Ended && (it.Epoch > src.Epoch || it.Sequence >= src.Next): // Next is 0 if the source is new
		pl.decide(it, admission.Ended())
		return false, nil
	case !known && !pl.makeRoom(key):
		pl.decide(it, admission.BeyondLimits("sources"))
		return false, nil
	case known && it.Epoch > src.Epoch && len(src.Held) > 0:
		return true, pl.raise(ctx, key, it.Epoch)
	case !known || it.Epoch > src.Epoch:
		src = record.Source{Epoch: it.Epoch, Next: 1}
	}
	switch {
	case it.Sequence < src.Next:
		pl.decide(it, pl.late(it, &src))
	case it.Sequence == src.Next && pl.next.Ready(&it.Message):
		return pl.runNext(ctx, it, key, src)
	}
	return false, nil
}

// late returns the outcome of a message whose number was passed. If an attempt of this call passed
// it, the outcome has the attempt's reply, which is in the token.
func (pl *plan) late(it *item, src *record.Source) record.Outcome {
	if len(it.attempts) > 0 {
		if t := pl.token(it); it.tried(t.Owner) {
			return record.Outcome{Kind: record.Processed, Reply: t.Reply}
		}
	}
	if it.Void {
		return record.Outcome{Kind: record.Duplicate}
	}
	return admission.Late(src, it.Sequence)
}

// makeRoom reports whether the record can remember a new source. It may forget idle sources, but
// none that sent a message of this batch or on which one depends.
func (pl *plan) makeRoom(key string) bool {
	return pl.next.MakeRoom(key, pl.part.stream.Limits, pl.now.Add(-pl.part.stream.GroupRetention), func(source string) bool {
		return slices.ContainsFunc(pl.part.items, func(it *item) bool { return it.ByNumber && it.Concerns(source) })
	})
}

// raise starts a newer epoch of a source. It dead-letters the messages held for the old epoch, as
// many as one commit can delete. When none is left, the new epoch begins, whatever the fate of the
// message that carries it.
func (pl *plan) raise(ctx context.Context, key string, epoch uint64) error {
	if err := pl.evict(ctx, key, admission.StaleEpoch()); err != nil {
		return err
	}
	if len(pl.next.Sources[key].Held) == 0 {
		pl.put(key, record.Source{Epoch: epoch, Next: 1})
	}
	return nil
}

// runNext runs the message whose number is next. If a message with that number is held, it arrived
// first, and this one must have the same content.
func (pl *plan) runNext(ctx context.Context, it *item, key string, src record.Source) (bool, error) {
	m, held := it.Message, src.Held.Contains(it.Sequence)
	if held {
		if pl.more = pl.room() == 0; pl.more {
			return false, nil
		}
		var err error
		if m, err = pl.heldCopy(ctx, it, key); err != nil {
			return false, err
		}
		if m.Fingerprint() != it.Fingerprint() {
			pl.decide(it, admission.KeyReuse())
			return false, nil
		}
	}
	if it.Void {
		passed, err := pl.void(key, src, &m)
		if passed {
			pl.decide(it, record.Outcome{Kind: record.Processed})
		}
		return passed, err
	}
	fate, err := pl.run(ctx, it)
	if err != nil || pl.more {
		return false, err
	}
	pl.decide(it, fate)
	pl.failed = pl.failed || fate.Kind == record.Retry
	switch {
	case fate.Kind == record.Processed:
		pl.passed(key, src, &m)
		pl.more = pl.ends()
	case held: // another delivery of it may have been acknowledged
		pl.returnHeld(key, src, m, fate)
		return true, nil
	}
	return fate.Kind == record.Processed, nil
}

// passed advances the source to the next number.
func (pl *plan) passed(key string, src record.Source, m *record.Message) {
	src = pl.release(key, src, m)
	src.Next = m.Sequence + 1
	src.GapSince = pl.now
	pl.put(key, src)
}

// release removes a message from the held ones, if it is there.
func (pl *plan) release(key string, src record.Source, m *record.Message) record.Source {
	if !src.Held.Contains(m.Sequence) {
		return src
	}
	src.Held = src.Held.Remove(m.Sequence)
	src.HeldBytes -= m.Size()
	pl.unhold = append(pl.unhold, record.HeldKey{Group: pl.next.Key, Source: key, Epoch: src.Epoch, Sequence: m.Sequence})
	pl.changed = true
	return src
}

func (pl *plan) put(key string, src record.Source) {
	if pl.next.Sources == nil {
		pl.next.Sources = map[string]record.Source{}
	}
	if len(src.Held) == 0 {
		src.HeldBytes, src.GapSince = 0, pl.now
	}
	pl.next.Sources[key] = src
}

// releases reports whether this plan already deletes the held message with this number. One commit
// can't delete and insert the same key, so the caller must commit first.
func (pl *plan) releases(key string, it *item) bool {
	return slices.Contains(pl.unhold, record.HeldKey{Group: pl.next.Key, Source: key, Epoch: it.Epoch, Sequence: it.Sequence})
}

// holdRest holds the messages that are too early. It starts with the newest epochs, so that
// messages of older epochs are refused.
func (pl *plan) holdRest(ctx context.Context) error {
	var rest []*item
	for _, it := range pl.part.items {
		if pl.undecided(it) {
			rest = append(rest, it)
		}
	}
	slices.SortStableFunc(rest, func(a, b *item) int { return cmp.Compare(b.Epoch, a.Epoch) })
	for _, it := range rest {
		if pl.more {
			return nil
		}
		if pl.failed {
			pl.decide(it, record.Outcome{Err: record.ErrBlocked})
			continue
		}
		if err := pl.holdOne(ctx, it); err != nil {
			return err
		}
	}
	return nil
}

func (pl *plan) holdOne(ctx context.Context, it *item) error {
	key := it.SourceKey()
	src, known := pl.next.Sources[key]
	switch {
	case !known && !pl.makeRoom(key):
		pl.decide(it, admission.BeyondLimits("sources"))
		return nil
	case !known || it.Epoch > src.Epoch:
		src = record.Source{Epoch: it.Epoch, Next: 1}
	case it.Epoch < src.Epoch:
		pl.decide(it, admission.StaleEpoch())
		return nil
	}
	if src.Held.Contains(it.Sequence) {
		return pl.heldAlready(ctx, it, key)
	}
	ranges := src.Held.Add(it.Sequence, it.Sequence)
	if pl.beyondBounds(it, key, src, ranges) {
		pl.decide(it, pl.tooEarly())
		return nil
	}
	if pl.room() == 0 || len(pl.hold) > 0 && pl.held+it.Size() > maxHold || pl.releases(key, it) || pl.part.alone && pl.runs > 0 {
		pl.more = true
		return nil
	}
	if len(src.Held) == 0 {
		src.GapSince = pl.now
	}
	src.Held = ranges
	src.HeldBytes += it.Size()
	pl.put(key, src)
	pl.hold = append(pl.hold, record.Held{Message: it.Message, At: pl.now})
	pl.held += it.Size()
	pl.changed = true
	pl.decide(it, record.Outcome{Kind: record.HeldBack})
	return nil
}

// beyondBounds reports whether a message can't be held. A message that is next is in no gap: no gap
// policy may act on it.
//
// A stream with partitions has no bounds on held messages but the number of ranges: a message that
// goes back to the queue could come after the end of the stream.
func (pl *plan) beyondBounds(it *item, key string, src record.Source, ranges record.Ranges) bool {
	next := it.Sequence == src.Next
	if !next && !pl.next.CanHold(key, ranges, pl.part.stream.Limits) {
		return true
	}
	if pl.part.stream.Partitions > 0 {
		return false
	}
	b := pl.part.stream.Bounds
	// A lone message is held at any distance: a gap policy acts only on held messages.
	far := it.Sequence-src.Next > b.Distance && len(src.Held) > 0
	full := src.Held.Len() >= b.Count || src.HeldBytes+it.Size() > b.Bytes
	return far || full && !next
}

// tooEarly returns the outcome of a message that can't be held.
func (pl *plan) tooEarly() record.Outcome {
	if pl.part.stream.Partitions > 0 {
		return admission.BeyondLimits("ranges of missing numbers")
	}
	return record.Outcome{Err: ErrBounds}
}

// heldAlready settles another delivery of a held message, if the content is the same. It requires a
// commit even though the record does not change: this delivery may be the copy that another worker
// has just put back on the queue, and that worker's commit deletes the held message. Either that
// commit fails, or this one does and the engine loads again.
func (pl *plan) heldAlready(ctx context.Context, it *item, key string) error {
	m, err := pl.heldCopy(ctx, it, key)
	if err != nil {
		return err
	}
	if m.Fingerprint() != it.Fingerprint() {
		pl.decide(it, admission.KeyReuse())
		return nil
	}
	pl.changed = true
	pl.decide(it, record.Outcome{Kind: record.HeldBack})
	return nil
}

// heldCopy returns the held message that has the number of another delivery.
func (pl *plan) heldCopy(ctx context.Context, it *item, key string) (record.Message, error) {
	for _, h := range pl.hold {
		if h.Message.Number() == it.Number() && h.Message.SourceKey() == key {
			return h.Message, nil
		}
	}
	held, err := pl.cfg.Store.Held(ctx, record.HeldKey{Group: pl.next.Key, Source: key, Epoch: it.Epoch, Sequence: it.Sequence}, 1)
	if err != nil {
		return record.Message{}, fmt.Errorf("load held message: %w", err)
	}
	if len(held) == 0 || held[0].Message.Sequence != it.Sequence {
		return record.Message{}, fmt.Errorf("load held message: number %d is missing: %w", it.Sequence, errReload)
	}
	return held[0].Message, nil
}
