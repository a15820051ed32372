package dedup_test

import (
	"context"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/record"
)

// allocations returns how many allocations a batch of a hundred numbered messages needs.
func allocations(t *testing.T, s record.Stream) float64 {
	t.Helper()
	s.Name, s.Admission = "s", record.BySequence
	s.Handler = func(context.Context, *record.Attempt, record.Message) error { return nil }
	e, err := dedup.New(dedup.Config{Store: memstore.New(time.Now), Queues: &worker{}, Streams: []record.Stream{s}})
	if err != nil {
		t.Fatal(err)
	}
	batch := make([]record.Message, 100)
	next := uint64(0)
	return testing.AllocsPerRun(20, func() {
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
}

// The hash of a token takes two allocations, and with it a message has at least four.
func TestANumberedMessageWithoutEffectsNeedsNoHash(t *testing.T) {
	if got, limit := allocations(t, record.Stream{}), 350.; got > limit {
		t.Errorf("a batch of 100 messages needs %.0f allocations, and should need at most %.0f", got, limit)
	}
}

// The entries of a commit are encoded one after the other into the memory of their chunk.
func TestALogNeedsNoAllocationForEachMessage(t *testing.T) {
	without, with := allocations(t, record.Stream{}), allocations(t, record.Stream{LogRetention: time.Hour, LogMessages: true})
	if with > without+20 {
		t.Errorf("a batch of 100 messages needs %.0f allocations with a log, and %.0f without", with, without)
	}
}
