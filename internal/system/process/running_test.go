package process

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// A slow engine runs message 1 until release is closed.
type slow struct {
	stub
	release chan struct{}
}

func (s *slow) Process(ctx context.Context, messages []record.Message) []record.Outcome {
	if messages[0].ID == "1" {
		<-s.release
	}
	return s.stub.Process(ctx, messages)
}

func (s *slow) Direct(ctx context.Context, m record.Message) (record.Outcome, bool) {
	return s.Process(ctx, []record.Message{m})[0], true
}

func TestWhileAnAttemptRunsItsMessageGoesBackToTheQueue(t *testing.T) {
	for name, first := range map[string]func(h *Handler){
		"from the queue": func(h *Handler) { h.Handle(t.Context(), deliveries("ingress", "1 - 1")) },
		"direct":         func(h *Handler) { h.Direct(t.Context(), record.Stream{}, record.Message{Stream: "orders", ID: "1"}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &slow{release: make(chan struct{})}
				h := New(s, decode, s.later, Options{Now: func() time.Time { return noon }})
				go first(h)
				synctest.Wait()
				next := New(s, decode, s.later, Options{Now: func() time.Time { return noon }})
				next.Continue(h) // after a reload
				batch := deliveries("ingress", "2 - 1", "1 - 9", "3 - 1")
				got := next.Handle(t.Context(), batch)
				if again := retried(batch, got); again != "1" || got[1].Pause != runningPause {
					t.Errorf("retried: %s, after %v", again, got[1].Pause)
				}
				if r := next.Direct(t.Context(), record.Stream{}, record.Message{Stream: "orders", ID: "1"}); !errors.Is(r.Outcome.Err, errRunning) || r.Pause != runningPause {
					t.Errorf("%+v", r)
				}
				if r := next.DirectAll(t.Context(), noon, record.Stream{}, []record.Message{{Stream: "orders", ID: "1"}, {Stream: "orders", ID: "4"}}); !r[0].Untried || r[1].Outcome.Kind != record.Processed {
					t.Errorf("%+v", r)
				}
				close(s.release)
				synctest.Wait()
				if again := retried(batch, next.Handle(t.Context(), batch)); again != "" {
					t.Errorf("retried: %s, though the attempt has ended", again)
				}
				if len(next.running.messages) != 0 {
					t.Errorf("running: %v", next.running.messages)
				}
			})
		})
	}
}

// In a first-in-first-out queue, the messages of the group wait too.
func TestNoMessageOvertakesOneOfItsGroupThatRuns(t *testing.T) {
	r := running{messages: map[identity]struct{}{}}
	group := func(id, group string) record.Message { return record.Message{Stream: "orders", ID: id, Group: group} }
	first := r.claim([]record.Message{group("1", "a")})
	second := r.claim([]record.Message{group("1", "a"), group("2", "a"), group("3", "b")})
	if free := second.all(); len(free) != 1 || free[0].ID != "3" {
		t.Errorf("%+v", free)
	}
	second.release()
	if third := r.claim([]record.Message{group("1", "a")}); third.free(0) {
		t.Error("a call has released the message of another one")
	}
	first.release()
	if fourth := r.claim([]record.Message{group("1", "a"), group("1", "a")}); !fourth.free(0) || !fourth.free(1) {
		t.Error("copies of a message in one call are left to the engine")
	}
}
