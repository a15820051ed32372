package pipeline

import (
	"context"
	"time"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

// reach is a worker's connection to the store.
type reach struct{ w *worker }

func (r reach) Load(_ context.Context, g []record.GroupKey, t []record.TokenKey) (groups []record.Group, tokens []record.Token, err error) {
	err = r.w.call(func() (err error) { groups, tokens, err = r.w.store.Load(context.Background(), g, t); return err })
	return groups, tokens, err
}

func (r reach) Commit(_ context.Context, c record.Commit) error {
	return r.w.call(func() error { return r.w.store.Commit(context.Background(), c) })
}

func (r reach) Clear(_ context.Context, c record.Clear) error {
	return r.w.call(func() error { return r.w.store.Clear(context.Background(), c) })
}

func (r reach) Held(_ context.Context, k record.HeldKey, n int) (held []record.Held, err error) {
	err = r.w.call(func() (err error) { held, err = r.w.store.Held(context.Background(), k, n); return err })
	return held, err
}

func (r reach) SwapToken(_ context.Context, old, next record.Token) (t record.Token, err error) {
	err = r.w.call(func() (err error) { t, err = r.w.store.SwapToken(context.Background(), old, next); return err })
	return t, err
}

func (r reach) MarkDone(_ context.Context, tokens []record.Token) error {
	return r.w.call(func() error { return r.w.store.MarkDone(context.Background(), tokens) })
}

// A way is a worker's connection to a queue, to which it only sends.
type way struct {
	w *worker
	b *bag
}

func (y way) Name() string { return y.b.name }

func (y way) Send(_ context.Context, messages []queue.Message) []queue.SendResult {
	results := make([]queue.SendResult, len(messages))
	if err := y.w.call(func() error { results = y.b.put(messages); return nil }); err != nil {
		for i := range results {
			results[i].Err = err
		}
	}
	return results
}

func (way) Receive(context.Context, int, time.Duration, time.Duration) ([]queue.Delivery, error) {
	return nil, nil
}
func (way) Delete(context.Context, []string) []error                      { return nil }
func (way) ChangeVisibility(context.Context, string, time.Duration) error { return nil }

// An outlet is a worker's connection to the destination.
type outlet struct{ w *worker }

func (o outlet) Send(_ context.Context, ds []record.Delivery) []error {
	errs := make([]error, len(ds))
	if err := o.w.call(func() error { o.w.copies = append(o.w.copies, ds...); return nil }); err != nil {
		for i := range errs {
			errs[i] = err
		}
	}
	return errs
}
