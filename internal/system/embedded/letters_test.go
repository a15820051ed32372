package embedded_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

func TestALetterThatCanNeverBePutBackIsNamedWithItsErrorAndDropped(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: forwarding}
	r := p.start()
	defer r.stop()
	r.sendSQS(t, "large", strings.Repeat(`"`, 700<<10))
	r.idle(t)
	info, err := r.Redrive(t.Context(), admin.RedriveOptions{})
	if err != nil || len(info.Failures) != 1 {
		t.Fatalf("redrive: %+v, %v", info, err)
	}
	f := info.Failures[0]
	if f.ID != "large" || f.Stream != "orders" || f.Queue != "ingress-dead" || f.MessageID == "" || !strings.Contains(f.Error, "once-cut was malformed") {
		t.Errorf("the failure is %+v", f)
	}
	if _, err := r.Drop(t.Context(), admin.DropOptions{}); err == nil {
		t.Error("a drop that names nothing is not refused")
	}
	if info, err := r.Drop(t.Context(), admin.DropOptions{ID: "other"}); err != nil || info.Dropped != 0 {
		t.Errorf("drop of another: %+v, %v", info, err)
	}
	dropped, err := r.Drop(t.Context(), admin.DropOptions{ID: f.MessageID})
	if err != nil || dropped.Dropped != 1 || dropped.Letters[0].ID != "large" {
		t.Fatalf("drop: %+v, %v", dropped, err)
	}
	if stats := r.idle(t); stats.DeadLetters != 0 {
		t.Errorf("%d dead letters are left", stats.DeadLetters)
	}
}

func TestADeadLetterIsShownWithItsHeadersAndItsBodyAndPutBackByItsID(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: forwarding}
	var healed atomic.Bool
	handler := func(_ context.Context, a *record.Attempt, m record.Message) error {
		if !healed.Load() {
			return &record.RejectError{Detail: "no"}
		}
		a.Send(record.Effect{To: []string{"ledger"}, ID: m.ID})
		return nil
	}
	r := p.start(system.Stream{Stream: record.Stream{Name: "orders", Handler: handler}})
	defer r.stop()
	for _, id := range []string{"a", "b"} {
		r.send(t, client.Message{Stream: "orders", Key: id, ContentType: "text/plain", Headers: map[string]string{"trace": "t-1"}, Body: []byte("body of " + id)})
	}
	r.idle(t)
	letters, err := r.DeadLetters(t.Context(), admin.DeadLettersOptions{ID: "b", Content: 4})
	want := &admin.Content{ContentType: "text/plain", Headers: map[string]string{"Trace": "t-1"}, Bytes: 9, Truncated: true, Body: admin.Body{Text: "body"}}
	if err != nil || len(letters) != 1 {
		t.Fatalf("%+v, %v", letters, err)
	}
	if d := cmp.Diff(want, letters[0].Content); d != "" {
		t.Errorf("content (-want +got)\n%s", d)
	}
	healed.Store(true)
	if info, err := r.Redrive(t.Context(), admin.RedriveOptions{ID: "b"}); err != nil || info.Redriven != 0 || info.Left != 1 || info.Answered != 1 {
		t.Fatalf("redrive of a letter whose caller was answered: %+v, %v", info, err)
	}
	r.send(t, client.Message{Stream: "orders", Key: "b", ContentType: "text/plain", Headers: map[string]string{"trace": "t-1"}, Body: []byte("body of b")})
	if stats := r.idle(t); stats.DeadLetters != 2 || len(p.lines()) != 0 {
		t.Fatalf("after the key was sent again: %d dead letters, %+v", stats.DeadLetters, p.lines())
	}
	if info, err := r.Redrive(t.Context(), admin.RedriveOptions{ID: "b", Answered: true}); err != nil || info.Redriven != 1 || info.Left != 1 {
		t.Fatalf("redrive: %+v, %v", info, err)
	}
	if stats := r.idle(t); stats.DeadLetters != 1 || len(p.lines()) != 1 || p.lines()[0].ID != "b" {
		t.Errorf("%d dead letters, %+v", stats.DeadLetters, p.lines())
	}
}

// TestAProducerThatSendsOneKeyWithManyContentsMakesOneDeadLetter sends each message under an id of its
// own of the queue, so that the queue takes them all.
func TestAProducerThatSendsOneKeyWithManyContentsMakesOneDeadLetter(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: forwarding}
	var runs atomic.Int64
	handler := func(context.Context, *record.Attempt, record.Message) error {
		runs.Add(1)
		return &record.RejectError{Detail: "no"}
	}
	r := p.start(system.Stream{Stream: record.Stream{Name: "orders", Handler: handler}})
	defer func() { r.stop() }()
	const sent = 300
	for i := range sent {
		r.produce(t, "order-1", fmt.Sprint("body ", i), fmt.Sprint(i), "a")
	}
	r.produce(t, "order-2", "x", "other", "a")
	r.idle(t)
	for range 2 {
		letters, err := r.DeadLetters(t.Context(), admin.DeadLettersOptions{Content: 100})
		if err != nil || len(letters) != 2 {
			t.Fatalf("%d letters, %v", len(letters), err)
		}
		if l := letters[0]; l.ID != "order-1" || l.Reason != "rejected" || l.Count != sent || l.First == nil || l.First.After(l.Sent) || l.Content.Text != "body 0" {
			t.Errorf("%+v, %+v", l, l.Content)
		}
		if runs.Load() != 2 {
			t.Errorf("the handler ran %d times", runs.Load())
		}
		r.stop()
		r = p.start(system.Stream{Stream: record.Stream{Name: "orders", Handler: handler}})
	}
	if info, err := r.Drop(t.Context(), admin.DropOptions{ID: "order-1"}); err != nil || info.Dropped != 1 || info.Letters[0].Count != sent {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestALetterThatIsRefusedAgainAfterARedriveIsOneLetter(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: forwarding}
	handler := func(context.Context, *record.Attempt, record.Message) error { return &record.RejectError{Detail: "no"} }
	r := p.start(system.Stream{Stream: record.Stream{Name: "orders", Handler: handler}})
	defer func() { r.stop() }()
	r.produce(t, "order-1", "x", "1", "a")
	for range 5 {
		r.idle(t)
		if info, err := r.Redrive(t.Context(), admin.RedriveOptions{Answered: true}); err != nil || info.Redriven != 1 {
			t.Fatalf("%+v, %v", info, err)
		}
	}
	if stats := r.idle(t); stats.DeadLetters != 1 {
		t.Errorf("%d dead letters", stats.DeadLetters)
	}
}

// TestAnAnsweredLetterIsPutBackOnRequestHoweverItsMessageCame: a message by SQS has no caller that
// waits, but whoever asks for its outcome is told that it is refused.
func TestAnAnsweredLetterIsPutBackOnRequestHoweverItsMessageCame(t *testing.T) {
	t.Parallel()
	byHTTP := func(r *running) {
		m := client.Message{Stream: "orders", Key: "order-1", Group: "g", ContentType: "text/plain", Body: []byte("x")}
		_, err := r.client.Send(t.Context(), m)
		if _, refused := errors.AsType[*client.Problem](err); err != nil && !refused {
			t.Error(err)
		}
	}
	for name, send := range map[string]func(r *running){
		"HTTP":       byHTTP,
		"HTTP queue": byHTTP,
		"SQS":        func(r *running) { r.produce(t, "order-1", "x", rand.Text(), "a") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &place{t: t, dir: t.TempDir(), config: forwarding}
			if name == "HTTP queue" {
				p.config = strings.Replace(p.config, "{destinations", "{direct: false, destinations", 1)
			}
			var healed atomic.Bool
			var runs atomic.Int64
			handler := func(_ context.Context, a *record.Attempt, m record.Message) error {
				if runs.Add(1); !healed.Load() {
					return &record.RejectError{Detail: "no"}
				}
				a.Send(record.Effect{To: []string{"ledger"}, ID: m.ID})
				return nil
			}
			r := p.start(system.Stream{Stream: record.Stream{Name: "orders", Handler: handler}})
			defer func() { r.stop() }()
			want := func(letters, count int, ran int64, effects int) {
				t.Helper()
				r.idle(t)
				list, err := r.DeadLetters(t.Context(), admin.DeadLettersOptions{})
				if err != nil || len(list) != letters || letters > 0 && max(1, list[0].Count) != count || runs.Load() != ran || len(p.lines()) != effects {
					t.Fatalf("letters %+v, %v; %d runs, %d effects; want %d letters of %d refusals, %d runs, %d effects", list, err, runs.Load(), len(p.lines()), letters, count, ran, effects)
				}
			}
			redrive := func(o admin.RedriveOptions, redriven, answered int) {
				t.Helper()
				if info, err := r.Redrive(t.Context(), o); err != nil || info.Redriven != redriven || info.Answered != answered {
					t.Fatalf("%+v, %v", info, err)
				}
			}
			send(r)
			want(1, 1, 1, 0)
			send(r) // told the same
			want(1, 1, 1, 0)
			redrive(admin.RedriveOptions{}, 0, 1)
			redrive(admin.RedriveOptions{Answered: true}, 1, 0)
			want(1, 1, 2, 0) // refused again
			r.stop()
			r = p.start(system.Stream{Stream: record.Stream{Name: "orders", Handler: handler}})
			healed.Store(true)
			redrive(admin.RedriveOptions{}, 0, 1)
			redrive(admin.RedriveOptions{Answered: true}, 1, 0)
			want(0, 0, 3, 1)
			send(r)
			want(0, 0, 3, 1)
		})
	}
}
