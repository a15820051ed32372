package telemetry_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/telemetry"
)

// letters takes dead letters, or does not.
type letters struct {
	record.Queues
	err error
}

func (l *letters) DeadLetter(context.Context, []record.Refused) error { return l.err }

func TestADeadLetterIsCountedOnce(t *testing.T) {
	tm, out := opened(t, telemetry.Options{})
	inner := &letters{err: errors.New("lost answer")}
	queues := tm.Queues(inner)
	refused := []record.Refused{{Message: record.Message{Stream: "orders"}}, {Message: record.Message{Stream: "orders"}}, {Delivery: &record.Delivery{Stream: "payments"}}}
	if err := queues.DeadLetter(t.Context(), refused); err == nil {
		t.Error("no error")
	}
	inner.err = nil
	if err := queues.DeadLetter(t.Context(), refused); err != nil {
		t.Error(err)
	}
	tm.Flush(t.Context(), nil)
	got := map[string]float64{}
	for _, d := range documents(t, out.String()) {
		got[d.root["stream"].(string)] = d.values()["DeadLettered"]
	}
	if diff := cmp.Diff(map[string]float64{"orders": 2, "payments": 1}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRunsOfAHandlerThatFailAreCountedAndRefusalsAreNot(t *testing.T) {
	tm, out := opened(t, telemetry.Options{})
	for name, h := range map[string]record.Handler{
		"fails": func(context.Context, *record.Attempt, record.Message) error { return errors.New("no database") },
		"refuses": func(context.Context, *record.Attempt, record.Message) error {
			return &record.RejectError{Detail: "bad"}
		},
		"works":  func(context.Context, *record.Attempt, record.Message) error { return nil },
		"panics": func(context.Context, *record.Attempt, record.Message) error { panic("nil map") },
	} {
		func() {
			defer func() { _ = recover() }()
			_ = tm.Handler(h)(t.Context(), &record.Attempt{}, record.Message{Stream: name})
		}()
	}
	tm.Flush(t.Context(), nil)
	got := map[string]float64{}
	for _, d := range documents(t, out.String()) {
		got[d.root["stream"].(string)] = d.values()["HandlerFailed"]
	}
	if diff := cmp.Diff(map[string]float64{"fails": 1, "panics": 1}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWithoutAnOutputNothingIsCounted(t *testing.T) {
	tm, err := telemetry.Open(t.Context(), telemetry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	event := record.Event{Name: record.EventAccepted, Stream: "orders", Count: 1}
	if n := testing.AllocsPerRun(100, func() { tm.Observe(event) }); n != 0 {
		t.Errorf("an event takes %v allocations though no metrics are written", n)
	}
}
