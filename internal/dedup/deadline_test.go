package dedup_test

import (
	"context"
	"errors"
	"testing"

	"github.com/effectively-once/once/internal/record"
)

// A handler that takes all the time there is fails alone: what was done before it in the batch is committed, marked and triggered, and its own failure is told.
func TestAHandlerThatHangsUntilTheEndFailsAlone(t *testing.T) {
	for _, other := range []string{"g", "h"} {
		l := newLab(t)
		w := l.worker(byKey)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ran := make(chan struct{})
		l.scripts["a"] = func(_ context.Context, a *record.Attempt, _ record.Message) error {
			a.Send(record.Effect{To: []string{"out"}})
			close(ran)
			return nil
		}
		l.scripts["b"] = func(context.Context, *record.Attempt, record.Message) error {
			<-ran
			cancel()
			return ctx.Err()
		}
		batch := keyed("a", "b", "c")
		batch[0].Group = other
		out := w.Process(ctx, batch)
		same(t, "the one before in group "+other, out[0].Kind, record.Processed)
		if !errors.As(out[1].Err, new(*record.HandlerError)) {
			t.Errorf("with another in group %s: the one that hangs: %v", other, out[1].Err)
		}
		if out[2].Settled() || errors.As(out[2].Err, new(*record.HandlerError)) {
			t.Errorf("with another in group %s: the one behind: %+v", other, out[2])
		}
		same(t, "state", string(l.record(other).State), "a,")
		same(t, "triggers", len(l.triggers), 1)
	}
}
