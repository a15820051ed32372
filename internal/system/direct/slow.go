package direct

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// A watch measures the handlers of a batch, each by itself: a batch of many quick handlers may take
// longer than one of them may.
type watch struct {
	now  func() time.Time
	most atomic.Int64 // time of the slowest handler that has ended, in nanoseconds
}

type watchKey struct{}

// in returns a context in which handlers are measured.
func (w *watch) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, watchKey{}, w)
}

// longest returns the time of the slowest handler that has ended.
func (w *watch) longest() time.Duration { return time.Duration(w.most.Load()) }

// Watched returns a handler that is measured if it runs for a batch that is processed directly.
func Watched(h record.Handler) record.Handler {
	return func(ctx context.Context, a *record.Attempt, m record.Message) error {
		w, ok := ctx.Value(watchKey{}).(*watch)
		if !ok {
			return h(ctx, a, m)
		}
		defer w.ended(w.now())
		return h(ctx, a, m)
	}
}

// WatchedBatch is Watched for a handler of batches.
func WatchedBatch(h record.BatchHandler) record.BatchHandler {
	return func(ctx context.Context, b *record.Batch) error {
		w, ok := ctx.Value(watchKey{}).(*watch)
		if !ok {
			return h(ctx, b)
		}
		defer w.ended(w.now())
		return h(ctx, b)
	}
}

func (w *watch) ended(begun time.Time) {
	took := int64(w.now().Sub(begun))
	for {
		most := w.most.Load()
		if took <= most || w.most.CompareAndSwap(most, took) {
			return
		}
	}
}
