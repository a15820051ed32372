package dedup

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/dedup/outbox"
	"github.com/effectively-once/once/internal/record"
)

// maxCall is how many bytes of messages a batch handler gets with one call, unless a single message
// is larger.
const maxCall = 2 << 20

// A call is one call of a batch handler. It takes two plans of the same view: the first one gathers
// the messages that would run now, and is discarded. The second one is made after the call, and
// runs the same messages in the same order, each with its answer.
type call struct {
	batch     record.Batch
	gathering bool              // this is the first plan
	closed    bool              // the first plan gathers no further message
	bytes     int               // of the messages
	tokens    []record.TokenKey // of the messages without a number
	err       error             // of the handler, if the call had one message
	used      int               // answers in the second plan
	full      bool              // the next answer did not fit into the second plan
}

// A pace limits the messages of the calls for one part.
type pace struct {
	next int // messages of the next call
	most int // messages of any later call: as many as fit into a commit
}

// planBatch is plan for a stream with a batch handler. The plan has the whole answer of one call,
// or nothing of it: the state in an answer is that after its last message. If only the first part
// of an answer can be committed, planBatch discards it and calls the handler with fewer messages.
func (e *Engine) planBatch(ctx context.Context, p *part) (*plan, error) {
	for {
		gathered, err := e.gather(ctx, p)
		if err != nil {
			return gathered, err
		}
		c := gathered.call
		if !e.ask(ctx, gathered) {
			continue
		}
		pl, err := e.answer(ctx, gathered)
		if err != nil || c.left() == 0 {
			p.pace.grow(c)
			return pl, err
		}
		p.pace.shrink(c)
		if c.used == 0 && pl.changed { // the commit is full of other changes
			return pl, nil
		}
		// An answer to one message fits into a plan that has nothing else, so the handler has
		// changed its message. Without the error, the loop would not end.
		if pl.discard(ctx, pl.staged); len(c.batch.Messages) == 1 {
			return pl, fmt.Errorf("add the answer of a handler: %w", errReload)
		}
	}
}

// gather returns a plan whose call has the messages that would run now.
func (e *Engine) gather(ctx context.Context, p *part) (*plan, error) {
	p.setPace()
	pl := e.newPlan(p)
	pl.call = &call{gathering: true}
	marks := len(p.marks)
	err := pl.fill(ctx)
	p.marks = p.marks[:marks] // the next plan marks them
	pl.call.gathering = false
	if pl.over(ctx) != nil { // the handler would fail because of the deadline only
		pl.call.batch.Messages = nil
	}
	return pl, err
}

// ask calls the handler, if there are messages. It returns false if the call failed and had
// several messages: the next one has only the first of them, so that a message that always fails
// does not make the others fail. If the handler was not called at all, no message is the cause:
// the first one goes back to its queue, and the others behind it.
func (e *Engine) ask(ctx context.Context, gathered *plan) bool {
	p, b := gathered.part, &gathered.call.batch
	if len(b.Messages) == 0 {
		return true
	}
	b.ID, b.Group, b.Version, b.State = gathered.attempt, p.key, p.view.Version, slices.Clone(p.view.State)
	b.Now, b.NoTimers = e.cfg.Now(), p.stream.NoTimers()
	err := p.stream.Batch.Run(ctx, b)
	if errors.Is(err, record.ErrUntried) {
		b.Messages = b.Messages[:1]
	}
	if err != nil && len(b.Messages) > 1 {
		e.cfg.Log.Warn("batch handler failed, and is called again with the first message alone", "stream", p.stream.Name, "messages", len(b.Messages), "error", err)
		p.pace.next = 1
		return false
	}
	gathered.call.err = err
	return true
}

// answer returns a plan with the answers of a call. What has been answered is committed even if the
// deadline has passed, see [Engine.commit].
func (e *Engine) answer(ctx context.Context, gathered *plan) (*plan, error) {
	pl := e.planAt(gathered.part, gathered.attempt, gathered.now)
	if pl.call = gathered.call; len(pl.call.batch.Messages) > 0 {
		var cancel context.CancelFunc
		ctx, cancel = outbox.WithGrace(ctx)
		defer cancel()
	}
	return pl, pl.fill(ctx)
}

// setPace sets the pace of a part when its first call is gathered. If a message was delivered
// before, the part begins with a single one: a call that never returns ends with the deadline, and
// leaves no time to find out which of its messages is the cause.
func (p *part) setPace() {
	if p.pace.most > 0 {
		return
	}
	p.pace = pace{next: p.stream.BatchSize, most: p.stream.BatchSize}
	if slices.ContainsFunc(p.items, func(it *item) bool { return it.Try > 1 }) {
		p.pace.next = 1
	}
}

// grow doubles the messages of the next call after a call that the handler answered.
func (x *pace) grow(c *call) {
	if c.used > 0 && c.err == nil {
		x.next = min(2*x.next, x.most)
	}
}

// shrink limits the next call to the messages of a call whose answers could be committed.
func (x *pace) shrink(c *call) {
	x.next = max(1, c.used)
	if c.full {
		x.most = x.next
	}
}

// runInCall is run for a message of a stream with a batch handler.
func (pl *plan) runInCall(ctx context.Context, it *item) (record.Outcome, error) {
	if pl.gathering() {
		pl.addToCall(it)
		return record.Outcome{Kind: record.Processed}, nil
	}
	c := pl.call
	if pl.more = c.left() == 0 || !same(&c.batch.Messages[c.used], &it.Message); pl.more {
		return record.Outcome{}, nil
	}
	fate, err := pl.runAnswered(ctx, it)
	if err == nil && !pl.more {
		c.used++
	}
	return fate, err
}

// runAnswered adds the answer to a message. If it sets pl.more, the answer can't be added.
func (pl *plan) runAnswered(ctx context.Context, it *item) (record.Outcome, error) {
	c := pl.call
	pl.runs, pl.ran = pl.runs+1, it
	if fate, ok := c.unprocessed(); ok {
		return fate, nil
	}
	answer := c.batch.Answers()[c.used]
	answer.Attempt.State = c.batch.State
	fate, err := pl.complete(ctx, it, answer.Attempt)
	if c.full = pl.more; err == nil && fate.Kind != record.Processed && len(c.batch.Answers()) > 1 {
		pl.more = true // the state is that after a processed message, and after others
	}
	return fate, err
}

// unprocessed returns the outcome of the next message if its call failed or its answer refuses it.
func (c *call) unprocessed() (record.Outcome, bool) {
	if c.err != nil {
		return admission.Failed(c.err), true
	}
	if reject := c.batch.Answers()[c.used].Reject; reject != nil {
		return admission.Failed(reject), true
	}
	return record.Outcome{}, false
}

// addToCall adds a message to the call of the plan. If it sets pl.more, the message is for a later
// plan.
func (pl *plan) addToCall(it *item) {
	c := pl.call
	b := &c.batch
	if !it.ByNumber && slices.Contains(c.tokens, it.Token()) {
		return // the second plan compares its content
	}
	if pl.more = c.closed || len(b.Messages) == pl.part.pace.next || len(b.Messages) > 0 && c.bytes+it.Size() > maxCall; pl.more {
		return
	}
	if len(b.Messages) == 0 {
		b.Log = pl.next.Log
	}
	if !it.ByNumber {
		c.tokens = append(c.tokens, it.Token())
	}
	pl.runs++
	b.Messages, c.bytes, c.closed = append(b.Messages, it.Message), c.bytes+it.Size(), it.End
}

// left returns how many answers the plan does not have yet.
func (c *call) left() int {
	if c.err != nil {
		return 1 - c.used
	}
	return len(c.batch.Answers()) - c.used
}

// same reports whether two messages of a group have the same names and numbers.
func same(a, b *record.Message) bool {
	return a.Principal == b.Principal && a.ID == b.ID && a.SourceKey() == b.SourceKey() && a.Epoch == b.Epoch && a.Sequence == b.Sequence
}
