package dedup

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

// run runs the handler for a new message and adds the results to the plan. If it sets pl.more, the
// message did not fit into this commit and has no outcome.
func (pl *plan) run(ctx context.Context, it *item) (record.Outcome, error) {
	err := context.Cause(ctx)
	if err == nil && (pl.call == nil || pl.gathering()) { // the messages of an answer have run
		err = pl.over(ctx)
	}
	if err != nil {
		// the handler would fail because of the deadline only
		return record.Outcome{}, fmt.Errorf("run handler: %w", err)
	}
	if refused, ok := pl.refuse(it); ok {
		return refused, nil
	}
	if pl.more = pl.part.alone && pl.runs+pl.remembered > 0; pl.more {
		return record.Outcome{}, nil
	}
	if pl.call != nil && !it.OnlyEnds() {
		return pl.runInCall(ctx, it)
	}
	pl.runs, pl.ran = pl.runs+1, it
	a := &record.Attempt{
		ID: pl.attempt + "." + strconv.Itoa(pl.runs), Group: pl.next.Key, State: slices.Clone(pl.next.State), Log: pl.next.Log,
		Now: pl.cfg.Now(), NoTimers: pl.part.stream.NoTimers(),
	}
	if it.Route != "" {
		a.ID += record.RequestAttempt
	}
	if !it.OnlyEnds() {
		if err := pl.part.stream.Handler.Run(ctx, a, it.Message); err != nil {
			return admission.Failed(err), nil
		}
	}
	return pl.complete(ctx, it, a)
}

// complete adds the results of an attempt to the plan if they are valid. If it sets pl.more, they
// did not fit.
func (pl *plan) complete(ctx context.Context, it *item, a *record.Attempt) (record.Outcome, error) {
	effects := pl.effectsOf(it, a)
	if err := pl.publisher.Feasible(effects, a.Answer()); err != nil {
		return admission.Failed(err), nil
	}
	if err := appendable(pl.part.stream, a.Entries()); err != nil {
		return admission.Failed(err), nil
	}
	if err := pl.timeable(it, a); err != nil {
		return admission.Failed(err), nil
	}
	return pl.add(ctx, it, a, effects)
}

// refuse returns the outcome of a message that must not run.
func (pl *plan) refuse(it *item) (record.Outcome, bool) {
	if pl.next.Log.Ended {
		return admission.Ended(), true
	}
	if wrong := it.CheckSeen(pl.now); wrong != nil {
		return record.Outcome{Kind: record.Rejected, Reason: record.ReasonInvalid, Detail: wrong.Error()}, true
	}
	if why, ok := pl.part.tooLarge(it); ok {
		return record.Outcome{Kind: record.Rejected, Reason: record.ReasonInvalid, Detail: why}, true
	}
	return record.Outcome{}, false
}

// add adds the results of an attempt to the plan. If it sets pl.more, they did not fit.
func (pl *plan) add(ctx context.Context, it *item, a *record.Attempt, effects []record.Effect) (record.Outcome, error) {
	entries := pl.additionOf(it, a)
	if pl.more = !pl.fits(entries.size); pl.more {
		return record.Outcome{}, nil
	}
	// the record proves that the message is committed
	if !it.NeedsToken(a) && len(effects) == 0 {
		pl.adopt(it, a)
		return record.Outcome{Kind: record.Processed}, pl.append(&entries, it.Seen)
	}
	if !pl.next.TakesTargets(effects, pl.cfg.Sequenced, pl.part.stream.Limits) {
		return admission.BeyondLimits("targets"), nil
	}
	entry := it.NewEntry(a, effects, pl.part.stream)
	if err := pl.makeRoomFor(&entry); err != nil || pl.more {
		return record.Outcome{}, err
	}
	if len(pl.staged) == 0 {
		pl.since = pl.cfg.Now()
	}
	staged, err := pl.publisher.Stage(ctx, a)
	// If the plan is cut here and committed, a sweep deletes the blobs of this attempt.
	if pl.staged = append(pl.staged, staged...); err != nil {
		return record.Outcome{}, err
	}
	pl.keep(it, a, &entry)
	return record.Outcome{Kind: record.Processed, Reply: a.Answer()}, pl.append(&entries, it.Seen)
}

// reject adds the refusal of a message to the plan if it is final: it is remembered as a reply is.
// The dead letter is written before the commit, because no repetition writes it again; the caller
// of Call gets the refusal itself. If reject sets pl.more, the refusal did not fit.
func (pl *plan) reject(it *item, fate *record.Outcome) error {
	if fate.Kind == record.Processed {
		pl.accepted = true
	}
	if fate.Kind != record.Rejected || !fate.Reason.Final() || it.Timer != "" || pl.part.unremembered {
		return nil
	}
	if pl.more = pl.part.alone && pl.accepted; pl.more {
		return nil
	}
	a := &record.Attempt{ID: pl.attempt + ".refusal" + strconv.Itoa(pl.runs), State: pl.next.State}
	if it.Route != "" {
		a.ID += record.RequestAttempt
	}
	fate.Reply = record.Refusal(fate.Reason, fate.Detail)
	a.Reply(*fate.Reply)
	entry := it.NewEntry(a, nil, pl.part.stream)
	if err := pl.makeRoomFor(&entry); err != nil || pl.more {
		return err
	}
	pl.keep(it, a, &entry)
	pl.remembered++
	if !pl.part.early || pl.part.direct {
		pl.refused = append(pl.refused, record.Refused{Message: it.Message, Reason: fate.Reason, Detail: fate.Detail})
	}
	return nil
}

// marks reports whether the commit marks the token of an entry done, so that the record needs no
// entry for it.
func (pl *plan) marks(entry *record.Pending) bool { return len(entry.Effects) == 0 && pl.commitsDone }

// makeRoomFor sets pl.more if an entry does not fit into the plan, and returns record.ErrFull if it
// does not fit into the record.
func (pl *plan) makeRoomFor(entry *record.Pending) error {
	switch {
	case pl.marks(entry):
		pl.more = len(pl.done) > 0 && pl.doneBytes+entry.Size() > MaxPending
	case len(pl.next.Pending) == 0 || pl.bytes+entry.Size() <= MaxPending:
	case pl.changed:
		pl.more = true
	default:
		return record.ErrFull
	}
	return nil
}

// keep adds the results of an attempt and its entry to the plan.
func (pl *plan) keep(it *item, a *record.Attempt, entry *record.Pending) {
	it.attempts = append(it.attempts, a.ID)
	pl.adopt(it, a)
	if pl.marks(entry) {
		pl.done, pl.doneBytes = append(pl.done, entry.DoneToken(pl.next.Key, pl.now)), pl.doneBytes+entry.Size()
		return
	}
	pl.take(*entry)
}

// adopt takes over the state and the timers of an attempt.
func (pl *plan) adopt(it *item, a *record.Attempt) {
	pl.changed, pl.next.State = true, a.State
	pl.adoptTimers(it, a)
}

// take adds the pending entry of an attempt to the record to be written.
func (pl *plan) take(entry record.Pending) {
	entry.Number = pl.next.Last + 1
	switch {
	case len(entry.Effects) > 0:
		entry.Committed = pl.now.Truncate(time.Second).UTC()
	case pl.part.stream.Keeps(pl.next.Key, &entry):
		entry = entry.Keep(pl.now)
	}
	for i := range entry.Effects {
		pl.next.Chain(&entry.Effects[i], pl.cfg.Sequenced)
	}
	pl.setTimers(&entry)
	pl.next.Last += max(1, uint64(len(entry.Effects)))
	pl.next.Pending = append(pl.next.Pending, entry)
	pl.added++
	pl.bytes += entry.Size()
}
