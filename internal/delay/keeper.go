package delay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/effectively-once/once/internal/backoff"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

// Send sends messages to the queue of that name and returns an error for each. The messages are
// durable no later than any write that is made afterwards.
type Send func(ctx context.Context, queue string, messages []queue.Message) []error

// Options of a keeper. Zero fields take the defaults in their comments.
type Options struct {
	// Batch is how many items are moved at a time. Defaults to 100.
	Batch int
	// Ahead is how long before it is due an item may be moved: the queue then delays the message
	// for the rest of the time, in whole seconds, rounded up. It is at most [queue.MaxDelay], and
	// for standard queues only. Defaults to 0.
	Ahead time.Duration
	// Pause is the time between a failure and the next try. Defaults to a second.
	Pause time.Duration
	// Moved is called with the lateness of items that reached their queues: the time since they
	// were due. It may be nil.
	Moved func(late []time.Duration)
	// Now defaults to time.Now.
	Now func() time.Time
	// Log defaults to discarding.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	o.Batch = cmp.Or(o.Batch, 100)
	o.Pause = cmp.Or(o.Pause, time.Second)
	if o.Moved == nil {
		o.Moved = func([]time.Duration) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// look is the longest time for which a keeper sleeps while an item waits. Timers do not follow a
// clock that is set or a machine that was suspended; after each sleep the keeper looks at the
// clock.
const look = time.Second

// remind is the time between two lines of the log about the same corrupt items.
const remind = time.Hour

// forever is later than every due time.
const forever = 10 * record.MaxDelay

// A Keeper moves due items of one store to their queues. Several keepers may have the same store;
// then an item may be moved twice.
type Keeper struct {
	store   Store
	send    Send
	options Options
	wake    chan struct{} // has room for one
}

// NewKeeper returns a keeper that moves nothing until it is told to.
func NewKeeper(store Store, send Send, o Options) *Keeper {
	return &Keeper{store: store, send: send, options: o.withDefaults(), wake: make(chan struct{}, 1)}
}

// Waking returns a store whose Put wakes the keeper. It writes to s, which holds the same items as
// the keeper's store, for example with another durability.
func (k *Keeper) Waking(s Store) Store { return waking{s, k} }

type waking struct {
	Store
	keeper *Keeper
}

func (w waking) Put(ctx context.Context, items []Item) error {
	err := w.Store.Put(ctx, items)
	w.keeper.Wake() // after an error, too: the items may be there
	return err
}

// Wake makes Run look for the earliest item again. It never blocks.
func (k *Keeper) Wake() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Run moves items when they are due, until the context ends. It sleeps until the earliest item is
// due, and is woken by [Keeper.Wake]. After a failure it pauses and tries again. Corrupt items are
// logged at most once an hour, and keep no other waiting.
func (k *Keeper) Run(ctx context.Context) {
	var reported time.Time // when corrupt items were logged
	for ctx.Err() == nil {
		_, err := k.MoveDue(ctx)
		var next []Item
		if err == nil || errors.Is(err, record.ErrCorrupt) {
			var corrupt error
			next, corrupt = k.store.Due(ctx, Key{}, k.options.Now().Add(forever), 1)
			err = cmp.Or(corrupt, err)
		}
		corrupt := errors.Is(err, record.ErrCorrupt)
		if now := k.options.Now(); corrupt && now.Sub(reported).Abs() >= remind {
			k.options.Log.Error("delayed messages that can't be read stay where they are; the others are moved", "error", err)
			reported = now
		}
		switch {
		case ctx.Err() != nil:
		case err != nil && !corrupt:
			k.options.Log.Error("delayed messages not moved; they are tried again", "error", err)
			_ = backoff.Sleep(ctx, k.options.Pause) // the loop looks at ctx
		default:
			k.sleep(ctx, next)
		}
	}
}

// sleep returns when the first of the items is due, when the keeper is woken, and when the context
// ends.
func (k *Keeper) sleep(ctx context.Context, next []Item) {
	if len(next) == 0 {
		select {
		case <-k.wake:
		case <-ctx.Done():
		}
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		left := next[0].Due.Sub(k.options.Now()) - k.options.Ahead
		if left <= 0 {
			return
		}
		timer.Reset(min(left, look))
		select {
		case <-timer.C:
		case <-k.wake:
			return
		case <-ctx.Done():
			return
		}
	}
}

// MoveDue moves all items that are due now, or within [Options.Ahead], and returns their number. It
// goes on after an item that its queue does not take, or that can't be read, and returns an error
// then; the item stays.
func (k *Keeper) MoveDue(ctx context.Context) (moved int, err error) {
	failed := &failures{}
	var passed Key // the last item before which all are moved or have failed; zero if none has failed
	for {
		items, err := k.store.Due(ctx, passed, k.options.Now().Add(k.options.Ahead+1), k.options.Batch)
		if err != nil && !errors.Is(err, record.ErrCorrupt) {
			return moved, fmt.Errorf("read delayed messages: %w", err)
		}
		failed.corrupt = cmp.Or(failed.corrupt, err)
		n, err := k.move(ctx, items, failed)
		if moved += n; err != nil {
			return moved, err
		}
		if !Full(items, k.options.Batch) {
			return moved, failed.err()
		}
		if failed.items > 0 {
			passed = items[len(items)-1].Key
		}
	}
}

// move sends items to their queues, and then deletes those that the queues have.
func (k *Keeper) move(ctx context.Context, items []Item, failed *failures) (moved int, err error) {
	var gone []Key
	for _, part := range byQueue(items) {
		errs := k.send(ctx, part[0].Queue, k.messages(part))
		for i := range part {
			switch {
			case len(errs) != len(part):
				failed.add(errNoAnswer)
			case errs[i] != nil:
				failed.add(errs[i])
			default:
				gone = append(gone, part[i].Key)
			}
		}
	}
	if len(gone) == 0 {
		return 0, nil
	}
	k.report(gone)
	// The messages are in their queues, so they should not stay here only because the caller ends.
	if err := k.store.Delete(context.WithoutCancel(ctx), gone); err != nil {
		return len(gone), fmt.Errorf("delete delayed messages that were moved: %w", err)
	}
	return len(gone), nil
}

// messages returns the messages of items, each with the rest of its delay.
func (k *Keeper) messages(items []Item) []queue.Message {
	now := k.options.Now()
	out := make([]queue.Message, len(items))
	for i := range items {
		out[i] = items[i].Message
		if k.options.Ahead > 0 {
			out[i].Delay = Seconds(items[i].Due.Sub(now))
		}
	}
	return out
}

// Seconds returns a delay in whole seconds, as SQS takes it, rounded up; 0 if it is over.
func Seconds(d time.Duration) time.Duration {
	return max(0, (d + time.Second - 1).Truncate(time.Second))
}

var errNoAnswer = errors.New("the queue did not answer for each message")

func (k *Keeper) report(moved []Key) {
	now := k.options.Now()
	late := make([]time.Duration, len(moved))
	for i := range moved {
		late[i] = now.Sub(moved[i].Due)
	}
	k.options.Moved(late)
}

// byQueue parts items by their queue, and keeps the order of each part.
func byQueue(items []Item) (parts [][]Item) {
	places := map[string]int{}
	for _, item := range items {
		at, ok := places[item.Queue]
		if !ok {
			at = len(parts)
			places[item.Queue], parts = at, append(parts, nil)
		}
		parts[at] = append(parts[at], item)
	}
	return parts
}

// failures are the items that could not be moved in one pass.
type failures struct {
	items   int
	first   error
	corrupt error // of an item that can't be read
}

func (f *failures) add(err error) {
	f.items++
	if f.first == nil {
		f.first = err
	}
}

func (f *failures) err() error {
	if f.first == nil {
		return f.corrupt
	}
	return fmt.Errorf("move %d delayed messages to their queues: %w", f.items, f.first)
}
