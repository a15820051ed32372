package embedded_test

import (
	"context"
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
