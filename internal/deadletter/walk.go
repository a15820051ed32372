package deadletter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/effectively-once/once/internal/queue"
)

const (
	receiveBatch = 10
	// Visibility is how long a letter is hidden from others while it is looked at, and after that where it is not released.
	Visibility = 2 * time.Minute
	// endTime bounds the end of a batch.
	endTime = 2 * time.Second
	// giveBackAtOnce is how many letters are given back at a time: there is little time for many.
	giveBackAtOnce = 8
)

// A Verdict is what becomes of a letter.
type Verdict uint8

// The verdicts.
const (
	Keep   Verdict = iota // leave it where it is
	Remove                // it has been put back: delete it
)

// A Walk goes through one dead-letter queue. It is used by one goroutine.
type Walk struct {
	Queue queue.Queue
	// Trusted are the senders that are believed; see [Read].
	Trusted []string
	// Wait is how long to wait for a letter. SQS asks all of its servers only where there is some; without it may miss letters. Defaults to none.
	Wait time.Duration

	seen map[string]bool
	left []string // receipts of what stays
}

// Visit looks at one letter. More is false where it wants to see no others.
type Visit func(ctx context.Context, l *Letter) (v Verdict, more bool)

// Run shows each letter once, those that come meanwhile included, until there are no others, or the visitor wants no more: then through is false. In a long walk letters that stay
// come again while others wait: it ends when there are none, or when a whole round of them brought nothing new. What stays is hidden from others until
// it is released, but for letters that were received and not shown: the next walk has to find them. The error of a context that has ended is its cause.
func (w *Walk) Run(ctx context.Context, visit Visit) (through bool, err error) {
	if w.seen == nil {
		w.seen = map[string]bool{}
	}
	again := map[string]bool{} // what was shown before and has come again since the last new letter
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
		case repeats: // nothing at all, or what came again comes a third time: each was hidden for a time in which nothing new came
			return true, nil
		}
	}
}

// batch shows a batch, deletes what may go, and gives back what was not shown to the end.
func (w *Walk) batch(ctx context.Context, batch []queue.Delivery, visit Visit) (more bool, err error) {
	more = true
	var gone, unseen []string
	for i := range batch {
		d := &batch[i]
		v := Keep
		switch {
		case w.seen[d.ID]:
		case !more || ctx.Err() != nil:
			unseen = append(unseen, d.Receipt)
			continue
		default:
			w.seen[d.ID] = true
			l := Read(w.Queue.Name(), *d, w.Trusted)
			v, more = visit(ctx, &l)
		}
		switch {
		case v == Remove:
			gone = append(gone, d.Receipt)
		case ctx.Err() != nil: // perhaps before the visitor was done with it
			unseen = append(unseen, d.Receipt)
		default:
			w.left = append(w.left, d.Receipt)
		}
	}
	return more, errors.Join(w.end(ctx, gone, unseen), context.Cause(ctx))
}

// end ends a batch, after an interrupt too: it deletes what was put back, and gives back what was not shown.
func (w *Walk) end(ctx context.Context, gone, unseen []string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	err := w.remove(ctx, gone)
	w.giveBack(ctx, unseen...)
	return err
}

// remove deletes letters whose copies are where they belong. Where it fails there are two for a while, under one identity.
func (w *Walk) remove(ctx context.Context, gone []string) error {
	if len(gone) == 0 {
		return nil
	}
	if err := errors.Join(w.Queue.Delete(ctx, gone)...); err != nil {
		return fmt.Errorf("delete dead letters that were put back: %w", err)
	}
	return nil
}

// Release gives back what stays, as far as it can within a time, after an interrupt too.
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

// giveBack shows letters to others again, as far as the context lasts; the rest comes back by itself when its time is over.
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
