package deadletter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/ingress"
	"github.com/effectively-once/once/internal/record"
)

const (
	receiveBatch = 10
	// Visibility is how long a letter is hidden from other receivers, unless it is released.
	Visibility = 2 * time.Minute
	// endTime is the time limit for the end of a batch.
	endTime = 2 * time.Second
	// giveBackAtOnce is how many letters are released concurrently, because there is little time.
	giveBackAtOnce = 8
)

// A Verdict is the decision about a letter.
type Verdict uint8

// The verdicts.
const (
	Keep   Verdict = iota // leave it in the queue
	Remove                // delete it: it has been redriven, or is dropped
)

// A Walk reads one dead-letter queue. It is used by one goroutine.
type Walk struct {
	Queue queue.Queue
	// Trusted are the trusted senders; see [Read].
	Trusted []string
	// Sources returns the source that a queue belongs to, by the name of the queue, or nil: SQS
	// moves its messages as they came. Optional.
	Sources func(queue string) *ingress.Source
	// Wait is how long to wait for a letter. SQS asks all of its servers only if Wait is not zero;
	// otherwise it may miss letters. Defaults to none.
	Wait time.Duration
	// Removed is called after the deletion of each removed letter, with its error. Optional.
	Removed func(*Letter, error)

	seen map[string]bool
	left []string // receipts of the letters that stay
}

// Visit decides about one letter. more is false if it wants no further letters.
type Visit func(ctx context.Context, l *Letter) (v Verdict, more bool)

// Run calls visit once for each letter, including those that arrive meanwhile, until there are no
// others. If visit wants no more, Run returns early with through false.
//
// In a long walk, letters that stay are received again while others wait: the walk ends when the
// queue is empty, or when a whole round of repeated letters contained no new one. Letters that stay
// are hidden from other receivers until they are released, except those that were received but not
// visited: the next walk has to find them. If the context has ended, the error is its cause.
func (w *Walk) Run(ctx context.Context, visit Visit) (through bool, err error) {
	if w.seen == nil {
		w.seen = map[string]bool{}
	}
	again := map[string]bool{} // letters that were received again since the last new one
	for {
		batch, err := w.Queue.Receive(ctx, receiveBatch, Visibility, w.Wait)
		if err = cmp.Or(context.Cause(ctx), err); err != nil {
			_ = w.end(ctx, nil, receipts(batch)) // deletes nothing
			return false, fmt.Errorf("receive dead letters: %w", err)
		}
		fresh, repeats := false, true
		for i := range batch {
			id := batch[i].ID
			fresh, repeats = fresh || !w.seen[id], repeats && again[id]
			again[id] = true
		}
		if more, err := w.batch(ctx, batch, visit); err != nil || !more {
			return false, err
		}
		switch {
		case fresh:
			clear(again)
		// Empty, or a letter was received for the third time: between its receipts no new letter
		// arrived for a whole visibility time.
		case repeats:
			return true, nil
		}
	}
}

// batch visits a batch, deletes the letters to be removed, and releases those that were not visited
// to the end.
func (w *Walk) batch(ctx context.Context, batch []queue.Delivery, visit Visit) (more bool, err error) {
	more = true
	var gone []*Letter
	var unseen []string
	for i := range batch {
		d := &batch[i]
		v, l := Keep, (*Letter)(nil)
		switch {
		case w.seen[d.ID]:
		case !more || ctx.Err() != nil:
			unseen = append(unseen, d.Receipt)
			continue
		default:
			w.seen[d.ID] = true
			read := w.read(d)
			l = &read
			v, more = visit(ctx, l)
		}
		switch {
		case v == Remove:
			gone = append(gone, l)
		case ctx.Err() != nil: // perhaps interrupted during the visit
			unseen = append(unseen, d.Receipt)
		default:
			w.left = append(w.left, d.Receipt)
		}
	}
	return more, errors.Join(w.end(ctx, gone, unseen), context.Cause(ctx))
}

// read decodes a letter. A message of a source is for the source to read, after a redrive.
func (w *Walk) read(d *queue.Delivery) Letter {
	if w.Sources != nil && d.MovedFrom != "" {
		if s := w.Sources(d.MovedFrom); s != nil {
			return Letter{Delivery: *d, Queue: w.Queue.Name(), Refused: record.Refused{Reason: record.ReasonAttempts, Message: s.Unread(d)}}
		}
	}
	return Read(w.Queue.Name(), *d, w.Trusted)
}

// end ends a batch, also after an interrupt: it deletes the redriven letters, and releases those
// that were not visited.
func (w *Walk) end(ctx context.Context, gone []*Letter, unseen []string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	err := w.remove(ctx, gone)
	w.giveBack(ctx, unseen...)
	return err
}

// remove deletes letters. If that fails for a redriven one, there are two copies for a while, under
// one identity.
func (w *Walk) remove(ctx context.Context, gone []*Letter) error {
	if len(gone) == 0 {
		return nil
	}
	hidden := make([]string, len(gone))
	for i, l := range gone {
		hidden[i] = l.Receipt
	}
	errs := w.Queue.Delete(ctx, hidden)
	if w.Removed != nil {
		for i, l := range gone {
			w.Removed(l, errs[i])
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("delete dead letters: %w", err)
	}
	return nil
}

// Release releases the letters that stay, as many as possible within a time, also after an
// interrupt.
func (w *Walk) Release(ctx context.Context, within time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	w.giveBack(ctx, w.left...)
	w.left = nil
}

func receipts(batch []queue.Delivery) (out []string) {
	for i := range batch {
		out = append(out, batch[i].Receipt)
	}
	return out
}

// giveBack makes letters visible to other receivers, until the context ends; the others become
// visible when their visibility time ends.
func (w *Walk) giveBack(ctx context.Context, hidden ...string) {
	var all errgroup.Group
	all.SetLimit(giveBackAtOnce)
	for _, receipt := range hidden {
		if ctx.Err() != nil {
			break
		}
		all.Go(func() error { return w.Queue.ChangeVisibility(ctx, receipt, 0) })
	}
	_ = all.Wait()
}
