package lambda

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

var noon = time.Date(2026, 2, 3, 12, 0, 0, 0, time.UTC)

// A tape is a queue that notes what is sent to it, a line a call, and fails the bodies that start with "bad".
type tape struct {
	queue.Queue
	name  string
	calls *[]string
}

func (q tape) Name() string { return q.name }

func (q tape) Send(_ context.Context, messages []queue.Message) []queue.SendResult {
	results := make([]queue.SendResult, len(messages))
	line := q.name + ":"
	for i, m := range messages {
		body := m.Body
		if strings.HasPrefix(body, "{") {
			body = "trigger"
		}
		line += " " + body
		if m.Delay > 0 {
			line += "+" + m.Delay.String()
		}
		if strings.HasPrefix(m.Body, "bad") {
			results[i].Err = errors.New("not sent")
		}
	}
	if len(messages) > 0 {
		*q.calls = append(*q.calls, line)
	}
	return results
}

func newTapes() (*queues, *[]string) {
	calls := &[]string{}
	q := func(name string) queue.Queue { return tape{name: name, calls: calls} }
	return &queues{
		ingress: q("ingress"), ingressFIFO: q("ingress.fifo"), publish: q("publish"), publishFIFO: q("publish.fifo"), dead: q("dead"), deadPublish: q("dead-publish"),
		byNumber: map[string]bool{"numbers": true}, now: func() time.Time { return noon },
	}, calls
}

func wantCalls(t *testing.T, calls *[]string, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, *calls); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
	*calls = nil
}

func message(stream, group, body string) record.Message {
	return record.Message{Stream: stream, Group: group, ID: body, Body: []byte(body)}
}

func TestEachKindOfMessageHasItsQueue(t *testing.T) {
	q, calls := newTapes()
	request := message("numbers", "g", "c")
	request.Route = "POST /"
	refused := []record.Refused{{Message: message("orders", "g", "e")}, {Delivery: &record.Delivery{Identity: "i"}, To: "shop"}, {Message: message("orders", "g", "f")}}
	groups := []record.GroupKey{{Stream: "orders", Group: "a"}, {Stream: "orders", Group: "b"}}
	ctx := t.Context()
	if err := errors.Join(
		q.Enqueue(ctx, message("orders", "g", "a")), q.Enqueue(ctx, message("numbers", "g", "b")), q.Enqueue(ctx, request),
		q.Trigger(ctx, groups, 0), q.Trigger(ctx, groups[:1], time.Minute),
		q.Return(ctx, []record.Message{message("orders", "g", "d")}), q.Defer(ctx, []record.Message{message("orders", "g", "d")}), q.DeadLetter(ctx, refused),
	); err != nil {
		t.Fatal(err)
	}
	wantCalls(t, calls, "ingress.fifo: a", "ingress: b", "ingress.fifo: c", "publish.fifo: trigger trigger", "publish: trigger+1m0s",
		"ingress: d", "ingress: d+1s", "dead: e f", "dead-publish: trigger")
	if q.DeadLetter(ctx, []record.Refused{{Message: message("orders", "g", "bad")}}) == nil || q.Return(ctx, []record.Message{message("orders", "g", "bad")}) == nil {
		t.Error("a message that was not sent is no error")
	}
}

func TestMessagesOfOneGroupAreEnqueuedOneAfterTheOther(t *testing.T) {
	q, calls := newTapes()
	errs := inlet{q}.Enqueue(t.Context(), []record.Message{
		message("orders", "a", "a1"), message("orders", "b", "bad1"), message("orders", "a", "a2"), message("orders", "b", "b2"), message("orders", "b", "b3"), message("orders", "c", "c1"),
	})
	wantCalls(t, calls, "ingress.fifo: a1 bad1 c1", "ingress.fifo: a2")
	for i, failed := range []bool{false, true, false, true, true, false} {
		if failed != (errs[i] != nil) {
			t.Errorf("message %d: %v", i, errs[i])
		}
	}
}

func TestAMessageThatIsTooFarAheadComesBackLaterTheOlderItIs(t *testing.T) {
	q, calls := newTapes()
	aged := func(body string, age time.Duration) record.Message {
		return record.Message{Stream: "numbers", Source: "s", Sequence: 9, Body: []byte(body), Accepted: noon.Add(-age)}
	}
	if err := q.Defer(t.Context(), []record.Message{aged("new", 0), aged("old", time.Minute), aged("ancient", 48*time.Hour)}); err != nil {
		t.Fatal(err)
	}
	wantCalls(t, calls, "ingress: new+1s old+15s ancient+15m0s")
}
