package telemetry_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/telemetry"
)

// A hanging collector does not answer before the context of the report ends.
type hanging struct{ calls int }

func (*hanging) Tracer() trace.Tracer { return nil }

func (*hanging) Observe(*record.Event) bool { return true }

func (h *hanging) Export(ctx context.Context) error {
	h.calls++
	<-ctx.Done()
	return ctx.Err()
}

func TestACollectorThatHangsCostsASecondAndNeverTheInvocation(t *testing.T) {
	for name, c := range map[string]struct {
		left, costs time.Duration
	}{
		"much time left":   {time.Hour, time.Second},
		"little time left": {300 * time.Millisecond, 50 * time.Millisecond},
		"no time left":     {250 * time.Millisecond, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &hanging{}
				tm := telemetry.With(telemetry.Options{}, h)
				ctx, cancel := context.WithTimeout(t.Context(), c.left)
				defer cancel()
				start := time.Now()
				tm.Flush(ctx, nil)
				if took := time.Since(start); took != c.costs || ctx.Err() != nil || (h.calls > 0) != (c.costs > 0) {
					t.Errorf("%d reports took %s, want %s; the invocation: %v", h.calls, took, c.costs, ctx.Err())
				}
			})
		})
	}
}
