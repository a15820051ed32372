package dedup

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/record"
)

// MaxPending limits the bytes of pending effects in one group record. If a commit would exceed it,
// the engine publishes first.
const MaxPending = 256 << 10

var errReload = errors.New("the view of the group is stale")

// A plan is the content of one commit of a group. Until it is committed it exists in memory only,
// except for staged blobs.
type plan struct {
	*Engine
	part    *part
	loaded  record.Group // the view that the plan starts from
	attempt string
	now     time.Time
	next    record.Group
	hold    []record.Held
	held    int // bytes of hold
	unhold  []record.HeldKey
	staged  []string
	since   time.Time // when the first blob was staged
	runs    int       // handlers run
	ran     *item     // the message of the last run
	added   int       // pending entries added by this plan, at the end of next.Pending
	// remembered counts the refusals that the commit remembers; accepted says that a message is
	// processed by it.
	remembered int
	accepted   bool
	bytes      int // of next.Pending
	// tokens of messages without effects, which the commit marks done
	done      []record.Token
	doneBytes int
	// entries of the group's log, which the commit appends, and their size
	entries    log.Writer
	entryBytes int
	// messages to be dead-lettered before the commit, which releases them or remembers the refusal
	refused []record.Refused
	failing []record.Message // held messages, to be put back on their queue before that commit
	events  []record.Event
	failed  bool // a message must be retried: no later one of the group runs
	changed bool
	more    bool  // the plan is full: commit it and plan again
	call    *call // of the stream's batch handler
}

// plan decides every open item on the view, running handlers for the new messages.
func (e *Engine) plan(ctx context.Context, p *part) (*plan, error) {
	if p.stream.Batch != nil {
		return e.planBatch(ctx, p)
	}
	pl := e.newPlan(p)
	return pl, pl.fill(ctx)
}

// newPlan returns a plan that has nothing yet.
func (e *Engine) newPlan(p *part) *plan { return e.planAt(p, e.cfg.NewID(), e.cfg.Now()) }

func (e *Engine) planAt(p *part, attempt string, now time.Time) *plan {
	pl := p.newPlan()
	pl.Engine, pl.part, pl.attempt, pl.now = e, p, attempt, now
	pl.loaded, pl.next, pl.bytes = p.view, p.view.Clone(), p.view.PendingBytes()
	return pl
}

// fill decides the open items. If it returns an error, the plan is abandoned.
func (pl *plan) fill(ctx context.Context) error {
	p := pl.part
	if err := pl.cfg.Restores.Apply(&pl.next, p.stream.LogRetention > 0 && p.stream.Partitions == 0); err != nil {
		return err
	}
	if err := pl.clearEnded(ctx); err != nil {
		return pl.abandon(ctx, err)
	}
	if p.sweeping && !pl.next.Log.Ended {
		if err := pl.closeGaps(ctx); err != nil && !pl.cut(ctx) {
			return pl.abandon(ctx, err)
		}
	}
	if err := pl.byTokens(ctx); err != nil && !pl.cut(ctx) {
		return pl.abandon(ctx, err)
	}
	if err := pl.bySequence(ctx); err != nil && !pl.cut(ctx) {
		return pl.abandon(ctx, err)
	}
	if pl.changed && !pl.gathering() {
		if err := pl.dropLeftovers(ctx); err != nil && !pl.cut(ctx) {
			return pl.abandon(ctx, err)
		}
	}
	return nil
}

// waits reports to the observer that a message waits for others. The plan that only gathers
// messages is followed by one that reports the same.
func (pl *plan) waits(age time.Duration) {
	if !pl.gathering() {
		pl.cfg.Observe(record.Event{Name: record.EventGap, Stream: pl.part.stream.Name, Count: 1, Age: age})
	}
}

// gathering reports whether the plan only gathers messages for a batch handler.
func (pl *plan) gathering() bool { return pl.call != nil && pl.call.gathering }

// decide sets the outcome that an item will have if the plan is committed.
func (pl *plan) decide(it *item, fate record.Outcome) { it.plan, it.planned = pl, fate }

// cut ends a plan when the worker's deadline has passed. It reports whether the plan has results to
// commit: if they were discarded, every redelivery would repeat and discard them.
func (pl *plan) cut(ctx context.Context) bool {
	if pl.over(ctx) == nil || !pl.changed {
		return false
	}
	pl.more = true
	return true
}

// over returns an error if no further handler may start.
func (pl *plan) over(ctx context.Context) error {
	if until := pl.part.until; !until.IsZero() && !pl.cfg.Now().Before(until) {
		return context.DeadlineExceeded
	}
	return context.Cause(ctx)
}

// abandon discards a plan that was never written to the store.
func (pl *plan) abandon(ctx context.Context, err error) error {
	pl.discard(ctx, pl.staged)
	return err
}

// byTokens decides the messages without numbers, in their order. If the log has grown, it tries
// those again that wait for their parents.
func (pl *plan) byTokens(ctx context.Context) error {
	for grown := true; grown && !pl.failed && !pl.more; {
		last := pl.next.Log.Last
		for _, it := range pl.part.items {
			pl.failed = pl.failed || it.stops()
			if it.plan == pl && errors.Is(it.planned.Err, ErrParents) {
				it.plan = nil
			}
			if it.ByNumber || !it.open() || pl.more || it.plan == pl {
				continue
			}
			if err := pl.byToken(ctx, it); err != nil {
				return err
			}
		}
		grown = pl.next.Log.Last > last
	}
	return nil
}

func (pl *plan) byToken(ctx context.Context, it *item) error {
	if pl.failed {
		pl.decide(it, record.Outcome{Err: record.ErrBlocked})
		return nil
	}
	if entry, ok := it.Entry(&pl.next, pl.now); ok {
		pl.committed(it, entry)
		return nil
	}
	fate, fresh := pl.admit(it)
	if !fresh {
		pl.decide(it, fate)
		pl.failed = fate.Kind == record.Retry
		return nil
	}
	if fate, waits := pl.awaitsParents(it); waits && !pl.next.Log.Ended {
		pl.decide(it, fate)
		return nil
	}
	fate, err := pl.run(ctx, it)
	if err == nil && !pl.more {
		err = pl.reject(it, &fate)
	}
	if err != nil || pl.more {
		return err
	}
	pl.decide(it, fate)
	pl.more = pl.ends()
	pl.failed = fate.Kind == record.Retry
	return nil
}

// admit decides whether a message without a number is new. If it is not, fate is its outcome.
func (pl *plan) admit(it *item) (fate record.Outcome, fresh bool) {
	if it.Timer != "" {
		return pl.admitTimer(it)
	}
	token := pl.token(it)
	fate, fresh = admission.Admit(pl.part.stream, &it.Arrival, token, pl.now)
	if fate.Kind == record.Duplicate && it.tried(token.Owner) {
		fate = record.Committed(fate.Reply)
	}
	return fate, fresh
}

// committed decides a message that is pending: it was committed before, by this or another worker,
// or earlier in this plan.
func (pl *plan) committed(it *item, entry record.Pending) {
	if entry.Fingerprint != entry.Print(it.Fingerprint()) {
		pl.decide(it, admission.KeyReuse())
		return
	}
	fate := record.Outcome{Kind: record.Duplicate, Reply: entry.Reply}
	if it.tried(entry.Attempt) {
		fate = record.Committed(entry.Reply)
	}
	pl.decide(it, fate)
	pl.part.trigger = true
	// An entry of this plan is not committed yet; commit marks its token.
	if len(entry.Effects) == 0 && !entry.Kept() && entry.Number <= pl.loaded.Last && pl.part.tokens.get(it.Token()).State != record.Done {
		pl.part.mark(entry, pl.now)
	}
}

// token returns the token of an item as this plan will leave it.
func (pl *plan) token(it *item) record.Token {
	if it.copied {
		for _, done := range [][]record.Token{pl.done, pl.part.done} {
			if i := slices.IndexFunc(done, func(t record.Token) bool { return t.Key == it.Token() }); i >= 0 {
				return done[i]
			}
		}
	}
	token := pl.part.tokens.get(it.Token())
	if other, ok := pl.part.named[it.Token()]; ok && token.State != record.Done {
		return other
	}
	return admission.Current(pl.part.stream, &it.Arrival, token, &pl.next, pl.now)
}

// dropLeftovers removes the entries of earlier commits that have no effects, when their tokens are
// known to be done. Only the last plan of a round does this. An earlier plan may be repeated
// without reloading tokens; until then the entry is the only proof that its message is committed.
func (pl *plan) dropLeftovers(ctx context.Context) error {
	left := pl.loaded.Settled()
	if len(left) == 0 || pl.more {
		return nil
	}
	left = slices.DeleteFunc(left, func(p record.Pending) bool { return pl.part.tokens.get(p.Token).State == record.Done })
	if len(left) > 0 {
		err := pl.publisher.MarkLeftovers(ctx, pl.next.Key, left, pl.now)
		// The entry proves that its message is committed: write its token again, and keep the entry
		// until the token can be read.
		if errors.Is(err, record.ErrCorrupt) {
			for _, entry := range left {
				if !entry.Forgotten(pl.now) {
					pl.part.mark(entry, pl.now)
				}
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
