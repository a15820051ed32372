package function

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

const scheduledConfig = `
streams: {reports: {admission: token}}
schedules: {yearly: {cron: "@yearly", stream: reports, body: {all: true}}}
`

// The clock is the real one: the record of the schedule is put back by two years.
func TestSweepsThatRunAtOnceSendATickOnce(t *testing.T) {
	settings, clients := emulated(t, scheduledConfig)
	var mu sync.Mutex
	var ran []string
	reports := system.Stream{Stream: record.Stream{Name: "reports", Handler: func(_ context.Context, _ *record.Attempt, m record.Message) error {
		mu.Lock()
		defer mu.Unlock()
		ran = append(ran, m.Principal+" "+m.ID+" "+string(m.Body))
		return nil
	}}}
	open := func() *System {
		s, err := Open(Process, settings, clients, nil, reports)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, b := open(), open()
	do(t, a.Handler(), `{"once":"sweep"}`) // the schedule begins
	key := record.GroupKey{Stream: record.SchedulesStream, Group: "yearly"}
	groups, _, err := a.store.Load(t.Context(), []record.GroupKey{key}, nil)
	if err != nil || groups[0].Version != 1 {
		t.Fatalf("the record of the schedule: %+v, %v; want version 1", groups[0], err)
	}
	older := groups[0]
	older.Version = 2
	if older.State, err = json.Marshal(map[string]any{"cron": "@yearly", "through": time.Now().AddDate(-2, 0, 0).UTC()}); err != nil {
		t.Fatal(err)
	}
	if err := a.store.Commit(t.Context(), record.Commit{Loaded: groups[0], Next: older, Attempt: "older"}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 2 {
		for _, s := range []*System{a, b} {
			all.Go(func() {
				if _, err := s.Handler()(t.Context(), json.RawMessage(`{"once":"sweep"}`)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	do(t, b.Handler(), `{"once":"sweep"}`)
	ingress := sqsqueue.New(clients.SQS, settings.Queues.IngressFIFO)
	for deliveries := receive(t, ingress); len(deliveries) > 0; deliveries = receive(t, ingress) {
		handles := make([]string, len(deliveries))
		for i, d := range a.pipeline.Process().Handle(t.Context(), deliveries) {
			if handles[i] = deliveries[i].Receipt; d.Retry {
				t.Errorf("message %s: %+v, want it acknowledged", deliveries[i].ID, d)
			}
		}
		for _, err := range ingress.Delete(t.Context(), handles) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	tick := time.Date(time.Now().UTC().Year(), 1, 1, 0, 0, 0, 0, time.UTC).Format(time.RFC3339)
	if diff := cmp.Diff([]string{"~schedule yearly/" + tick + ` {"all":true}`}, ran); diff != "" {
		t.Errorf("processed messages (-want +got):\n%s", diff)
	}
}

func receive(t *testing.T, q *sqsqueue.Queue) []queue.Delivery {
	t.Helper()
	deliveries, err := q.Receive(t.Context(), 10, time.Minute, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return deliveries
}
