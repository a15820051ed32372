package admin_test

import (
	"context"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

// TestAHeldMessageWaitsForTheNumberOfTheSourceThatItDependsOn processes messages of two sources of
// one group with the real engine.
func TestAHeldMessageWaitsForTheNumberOfTheSourceThatItDependsOn(t *testing.T) {
	store := memstore.New(time.Now)
	handler := func(context.Context, *record.Attempt, record.Message) error { return nil }
	engine, err := dedup.New(dedup.Config{
		Streams: []record.Stream{{Name: "chat", Admission: record.BySequence, Handler: handler}}, Store: store, Queues: nowhere{},
	})
	if err != nil {
		t.Fatal(err)
	}
	ann := record.Message{Stream: "chat", Group: "g", Source: "ann", Sequence: 1}
	bob := record.Message{Stream: "chat", Group: "g", Source: "bob", Sequence: 1, DependsOn: map[string]uint64{"ann": 3}}
	for i, o := range engine.Process(t.Context(), []record.Message{ann, bob}) {
		if want := []record.Kind{record.Processed, record.HeldBack}[i]; o.Kind != want {
			t.Fatalf("message %d: %+v", i, o)
		}
	}
	nobody := func(record.GroupKey) []system.Wait { return nil }
	info, err := admin.MessageOf(t.Context(), store, bob, admission.State{Status: admission.StatusHeld, Group: "g"}, false, time.Now(), nobody)
	if err != nil || len(info.Waiting) != 1 {
		t.Fatalf("%+v, %v", info, err)
	}
	if w := info.Waiting[0]; w.For != admin.WaitNumber || w.Source != "ann" || w.Sequence != 2 || w.Since == nil {
		t.Errorf("got %+v", w)
	}
	group, err := admin.ReadGroup(t.Context(), store, record.GroupKey{Stream: "chat", Group: "g"}, engine.Stream, nil)
	if err != nil || len(group.Waiting) != 1 || group.Waiting[0].For != admin.WaitNumber || group.Waiting[0].Source != "ann" || group.Waiting[0].Sequence != 2 {
		t.Errorf("the group waits for %+v, %v; want number 2 of ann", group.Waiting, err)
	}
}

// nowhere takes everything.
type nowhere struct{}

func (nowhere) Trigger(context.Context, []record.GroupKey, time.Duration) error { return nil }
func (nowhere) Return(context.Context, []record.Message) error                  { return nil }
func (nowhere) DeadLetter(context.Context, []record.Refused) error              { return nil }
func (nowhere) Delay(context.Context, []record.Delayed) error                   { return nil }
