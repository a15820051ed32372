package dedup_test

import (
	"context"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/record"
)

// The hash of a token takes two allocations, and with it a message has at least four.
func TestANumberedMessageWithoutEffectsNeedsNoHash(t *testing.T) {
	e, err := dedup.New(dedup.Config{
		Store: memstore.New(time.Now), Queues: &worker{},
		Streams: []record.Stream{{Name: "s", Admission: record.BySequence, Handler: func(context.Context, *record.Attempt, record.Message) error { return nil }}},
	})
	if err != nil {
		t.Fatal(err)
	}
	batch := make([]record.Message, 100)
	next := uint64(0)
	got := testing.AllocsPerRun(20, func() {
		for i := range batch {
			next++
			batch[i] = record.Message{Stream: "s", Source: "p", Sequence: next}
		}
		for _, o := range e.Process(t.Context(), batch) {
			if o.Kind != record.Processed {
				t.Fatalf("%+v", o)
			}
		}
	})
	if limit := 3.5 * float64(len(batch)); got > limit {
		t.Errorf("a batch of %d messages needs %.0f allocations, and should need at most %.0f", len(batch), got, limit)
	}
}
