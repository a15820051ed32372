package function

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/awstest"
)

// The call that ends a stream may die before it has put the end on each queue.
func TestTheSweepOfEachMinuteSendsTheEndThatACallHasNotSent(t *testing.T) {
	settings, clients := emulated(t, "streams: {work: {pool: {partitions: 2}}}")
	s, err := Open(Process, settings, clients, nil)
	if err != nil {
		t.Fatal(err)
	}
	dead := errors.New("dead")
	broken := s.pipeline.Engine.Sessions(s.store, session.Config{
		Pools: map[string]session.Pool{"work": {Partitions: 2}}, Enqueue: func(context.Context, record.Message) error { return dead },
	})
	if err := broken.EndStream(t.Context(), "work"); !errors.Is(err, dead) {
		t.Fatal(err)
	}
	do(t, s.Handler(), `{"once": "sweep"}`)
	ends := map[string]bool{}
	for _, d := range awstest.Take(t, sqsqueue.New(clients.SQS, settings.Queues.IngressFIFO)) {
		m, _, err := wire.FromQueue(&d, wire.Defaults{Trusted: settings.Trusted})
		if err != nil || !m.End {
			t.Fatalf("got %+v, %v", m, err)
		}
		ends[m.GroupName()] = true
	}
	if len(ends) != 2 {
		t.Errorf("the ends of %v were sent", ends)
	}
}

func TestTheAPIShowsThatASessionIsFromBeforeARestore(t *testing.T) {
	settings, clients := emulated(t, "streams: {work: {pool: {partitions: 2}}}")
	id := session.ID{Stream: "work", Name: "a"}
	for _, restored := range []bool{false, true} {
		if restored {
			settings.Config.Restores = []time.Time{time.Now().UTC()}
		}
		s, err := Open(Ingest, settings, clients, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !restored {
			if _, err := s.sessions.Open(t.Context(), id, session.Opening{Holder: "h", Take: session.TakeFree}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Millisecond) // real time: the restore is after the session, which opens by the clock
		}
		d, err := s.sessions.Describe(t.Context(), id)
		if err != nil || d.Restored != restored {
			t.Errorf("restored is %v, want %v: %v", d.Restored, restored, err)
		}
	}
}
