package dedup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/effectively-once/once/internal/admission"
	"github.com/effectively-once/once/internal/record"
)

// MaxPending is how many bytes may wait to be published in one group record; what is pending is published before more is committed.
const MaxPending = 256 << 10

var errReload = errors.New("the view of the group is stale")

// A plan is what one commit of a group would make real. Until it is committed, all of it is in memory, but for staged blobs.
type plan struct {
	*Engine
	part    *part
	loaded  record.Group // the view that it was made on
	attempt string
	now     time.Time
	next    record.Group
	hold    []record.Held
	held    int // bytes of hold
	unhold  []record.HeldKey
	staged  []string
	since   time.Time        // when the first of staged was
	runs    int              // handlers run
	ran     record.TokenKey  // the message of the last one
	added   int              // pending entries of this plan, at the end of next.Pending
	bytes   int              // of next.Pending
	refused []record.Refused // held messages, to be dead-lettered ahead of the commit that releases them
	failing []record.Message // held messages, to be returned to their queue likewise
	events  []record.Event
	failed  bool // a delivery has to come again: no later one of the group runs
	changed bool
	more    bool // the plan is full: commit it and plan again
}

// plan decides every open item on the view, running handlers for the new ones.
func (e *Engine) plan(ctx context.Context, p *part) (*plan, error) {
	pl := &plan{Engine: e, part: p, loaded: p.view, attempt: e.cfg.NewID(), now: e.cfg.Now(), next: p.view.Clone(), bytes: p.view.PendingBytes()}
	if p.sweeping {
		if err := pl.closeGaps(ctx); err != nil && !pl.cut(ctx) {
			return pl, pl.abandon(ctx, err)
		}
	}
	for _, it := range p.items {
		pl.failed = pl.failed || it.stops()
		if it.open() && !it.ByNumber && !pl.more {
			if err := pl.byToken(ctx, it); err != nil && !pl.cut(ctx) {
				return pl, pl.abandon(ctx, err)
			}
		}
	}
	if err := pl.bySequence(ctx); err != nil && !pl.cut(ctx) {
		return pl, pl.abandon(ctx, err)
	}
	if pl.changed {
		if err := pl.dropLeftovers(ctx); err != nil && !pl.cut(ctx) {
			return pl, pl.abandon(ctx, err)
		}
	}
	return pl, nil
}

// decide gives an item its fate, if the plan is committed.
func (pl *plan) decide(it *item, fate record.Outcome) { it.plan, it.planned = pl, fate }

// cut ends a plan whose worker has no time left, and reports whether there is something in it to be committed: thrown away, it would be done and thrown away by each delivery anew.
func (pl *plan) cut(ctx context.Context) bool {
	if ctx.Err() == nil || !pl.changed {
		return false
	}
	pl.more = true
	return true
}

// abandon throws a plan away that was never offered to the store.
func (pl *plan) abandon(ctx context.Context, err error) error {
	pl.discard(ctx, pl.staged)
	return err
}

func (pl *plan) byToken(ctx context.Context, it *item) error {
	if pl.failed {
		pl.decide(it, record.Outcome{Err: record.ErrBlocked})
		return nil
	}
	if entry, ok := it.Entry(&pl.next); ok {
		pl.committed(it, entry)
		return nil
	}
	token := pl.part.tokens[it.Token()]
	fate, fresh := admission.Admit(pl.part.stream, &it.Arrival, token, pl.now)
	if !fresh {
		pl.decide(it, fate)
		pl.failed = fate.Kind == record.Retry
		return nil
	}
	fate, err := pl.run(ctx, it)
	if err != nil || pl.more {
		return err
	}
	pl.decide(it, fate)
	pl.failed = fate.Kind == record.Retry
	return nil
}

// committed settles a message that is pending already: committed before, by whomever, or earlier in this very plan.
func (pl *plan) committed(it *item, entry record.Pending) {
	if entry.Fingerprint != entry.Print(it.Fingerprint()) {
		pl.decide(it, admission.KeyReuse())
		return
	}
	fate := record.Outcome{Kind: record.Duplicate, Reply: entry.Reply}
	if slices.Contains(it.attempts, entry.Attempt) {
		fate.Kind = record.Processed // our own commit, whose answer was lost
	}
	pl.decide(it, fate)
	pl.part.trigger = true
	// An entry of this very plan is not committed yet; the commit marks it.
	if len(entry.Effects) == 0 && entry.Number <= pl.loaded.Last && pl.part.tokens[it.Token()].State != record.Done {
		pl.part.mark(entry, pl.now)
	}
}

// run runs the handler for a new message and takes what it did into the plan. pl.more says that it found no room in this commit.
func (pl *plan) run(ctx context.Context, it *item) (record.Outcome, error) {
	if err := context.Cause(ctx); err != nil {
		return record.Outcome{}, fmt.Errorf("run handler: %w", err) // it would fail for no fault of its own
	}
	if why, ok := pl.part.refused[it.Token()]; ok {
		return record.Outcome{Kind: record.Rejected, Reason: record.ReasonInvalid, Detail: why}, nil
	}
	if pl.more = pl.part.alone && pl.runs > 0; pl.more {
		return record.Outcome{}, nil
	}
	pl.runs, pl.ran = pl.runs+1, it.Token()
	a := &record.Attempt{ID: pl.attempt + "." + strconv.Itoa(pl.runs), Group: pl.next.Key, State: slices.Clone(pl.next.State)}
	if it.Route != "" {
		a.ID += record.RequestAttempt
	}
	if err := pl.part.stream.Handler.Run(ctx, a, it.Message); err != nil {
		return it.Failed(pl.cfg.Log, err), nil
	}
	effects := a.Effects()
	if err := pl.publisher.Feasible(effects, a.Answer()); err != nil {
		return it.Failed(pl.cfg.Log, err), nil
	}
	if it.ByNumber && len(effects) == 0 && a.Answer() == nil { // its number says that it is committed
		pl.changed, pl.next.State = true, a.State
		return record.Outcome{Kind: record.Processed}, nil
	}
	if !pl.next.TakesTargets(effects, pl.cfg.Sequenced, pl.part.stream.Limits) {
		return admission.BeyondLimits("targets"), nil
	}
	entry := it.NewEntry(a, effects, pl.part.stream)
	switch {
	case len(pl.next.Pending) == 0 || pl.bytes+entry.Size() <= MaxPending:
	case pl.changed:
		pl.more = true
		return record.Outcome{}, nil
	default:
		return record.Outcome{}, record.ErrFull
	}
	if len(pl.staged) == 0 {
		pl.since = pl.cfg.Now()
	}
	staged, err := pl.publisher.Stage(ctx, a)
	if pl.staged = append(pl.staged, staged...); err != nil { // where the plan is cut here and committed, a sweep deletes what was staged of this one
		return record.Outcome{}, err
	}
	it.attempts = append(it.attempts, a.ID)
	pl.take(a, entry)
	return record.Outcome{Kind: record.Processed, Reply: a.Answer()}, nil
}

// take puts an attempt into the record to be written.
func (pl *plan) take(a *record.Attempt, entry record.Pending) {
	pl.changed = true
	pl.next.State, entry.Number = a.State, pl.next.Last+1
	for i := range entry.Effects {
		pl.next.Chain(&entry.Effects[i], pl.cfg.Sequenced)
	}
	pl.next.Last += max(1, uint64(len(entry.Effects)))
	pl.next.Pending = append(pl.next.Pending, entry)
	pl.added++
	pl.bytes += entry.Size()
}

// dropLeftovers removes entries of earlier commits that have no effects, once their tokens are known to be done. The last plan does, when all is decided: for what is planned again
// without looking at its token anew, the entry is all that says that it is committed.
func (pl *plan) dropLeftovers(ctx context.Context) error {
	left := pl.loaded.Leftovers()
	if len(left) == 0 || pl.more {
		return nil
	}
	left = slices.DeleteFunc(left, func(p record.Pending) bool { return pl.part.tokens[p.Token].State == record.Done })
	if len(left) > 0 {
		err := pl.publisher.MarkLeftovers(ctx, pl.next.Key, left, pl.now)
		if errors.Is(err, record.ErrCorrupt) { // what is pending is committed: its token is written anew, and the entry stays until it is seen there
			for _, entry := range left {
				pl.part.mark(entry, pl.now)
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
	pl.next.Pending = slices.DeleteFunc(slices.Clone(pl.next.Pending), func(p record.Pending) bool {
		return len(p.Effects) == 0 && p.Number <= pl.loaded.Last
	})
	return nil
}
