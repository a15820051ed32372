package pipeline

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

func TestEachKindOfMessageHasItsQueue(t *testing.T) {
	w := newWorld(t)
	q, ctx := w.ways(), t.Context()
	request := message("numbers", "g", "request")
	request.Route = "POST /"
	refused := []record.Refused{
		{Message: message("orders", "g", "refused")}, {Delivery: &record.Delivery{Identity: "i", Stream: "orders"}, To: "shop"}, {Message: message("orders", "g", "too")},
	}
	groups := []record.GroupKey{{Stream: "orders", Group: "a"}, {Stream: "orders", Group: "b"}}
	if err := errors.Join(
		q.Enqueue(ctx, message("orders", "g", "order")), q.Enqueue(ctx, message("numbers", "g", "number")), q.Enqueue(ctx, request),
		q.Trigger(ctx, groups, 0), q.Trigger(ctx, groups[:1], time.Minute), q.Return(ctx, []record.Message{message("orders", "g", "returned")}), q.DeadLetter(ctx, refused),
	); err != nil {
		t.Fatal(err)
	}
	w.want(map[string][]string{
		"ingress.fifo": {"order", "request"}, "ingress": {"number", "returned"}, "publish.fifo": {"trigger", "trigger"}, "publish": {"trigger"},
		"dead": {"refused", "too"}, "dead-publish": {"effect"},
	})
	if s := w.queues["publish"].Stats(); s.Delayed != 1 {
		t.Errorf("the delayed trigger: %+v", s)
	}
	for _, name := range []string{"ingress", "publish", "dead", "dead-publish"} {
		for _, d := range w.peek(name) {
			if d.Group != "" || d.DedupID != "" {
				t.Errorf("standard queue %s has a message group: %+v", name, d.Message)
			}
		}
	}
}

func TestMessagesOfAStreamThatEndsStayInOrder(t *testing.T) {
	w := newWorld(t)
	q, ctx := w.ways(), t.Context()
	list := []record.Message{message("ending", "0", "a"), message("numbers", "g", "b"), message("ending", "0", "c")}
	pauses := []time.Duration{time.Minute, time.Minute, time.Minute}
	if err := errors.Join(q.Enqueue(ctx, message("ending", "0", "first")), q.Return(ctx, list), q.Defer(ctx, list), record.Each(q.Later(ctx, list, pauses))); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(time.Hour)
	w.want(map[string][]string{"ingress": {"b", "b", "b"}, "ingress.fifo": {"first", "a", "c", "a", "c", "a", "c"}})
	if s := w.queues["ingress.fifo"].Stats(); s.Delayed != 0 {
		t.Errorf("a delayed message is passed by the end: %+v", s)
	}
}

func TestAMessageThatAQueueDoesNotAcceptIsAnError(t *testing.T) {
	q, ctx := newWorld(t).ways(), t.Context()
	huge := message("orders", "g", "huge")
	huge.Body = make([]byte, queue.MaxLarge)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for name, err := range map[string]error{
		"enqueue": q.Enqueue(ctx, huge), "return": q.Return(ctx, []record.Message{message("orders", "g", "a"), huge}), "defer": q.Defer(ctx, []record.Message{huge}),
		"dead letter": q.DeadLetter(ended, []record.Refused{{Message: huge}}), "trigger": q.Trigger(ended, []record.GroupKey{{Stream: "orders", Group: "a"}}, 0),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestAnEmptySendCallsNoQueue(t *testing.T) {
	w := newWorld(t)
	q := w.ways()
	if err := errors.Join(q.Trigger(t.Context(), nil, 0), q.Return(t.Context(), nil), q.Defer(t.Context(), nil), q.DeadLetter(t.Context(), nil)); err != nil {
		t.Fatal(err)
	}
	if len(w.calls) > 0 {
		t.Errorf("calls: %q", w.calls)
	}
}

func TestAMessageTooFarAheadIsDeferredLongerTheOlderItIs(t *testing.T) {
	w := newWorld(t)
	aged := func(body string, age time.Duration) record.Message {
		return record.Message{Stream: "numbers", Source: "s", Sequence: 9, Body: []byte(body), Accepted: noon.Add(-age)}
	}
	if err := w.ways().Defer(t.Context(), []record.Message{aged("new", 0), aged("old", time.Minute), aged("ancient", 48*time.Hour)}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		after time.Duration
		body  string
	}{{time.Second, "new"}, {15 * time.Second, "old"}, {15 * time.Minute, "ancient"}} {
		w.now = noon.Add(step.after - time.Millisecond)
		if early := bodies(w.ready("ingress")); early != nil {
			t.Errorf("before %s: %q", step.after, early)
		}
		w.now = noon.Add(step.after)
		if d := cmp.Diff([]string{step.body}, bodies(w.ready("ingress"))); d != "" {
			t.Errorf("after %s (-want +got):\n%s", step.after, d)
		}
	}
}

// A single queue takes the messages of one Send one by one, as SQS does.
type single struct{ queue.Queue }

func TestMessagesOfOneGroupAreFedOneAfterTheOther(t *testing.T) {
	w := newWorld(t)
	ports := w.ports()
	ports.Ingress, ports.IngressFIFO = single{ports.Ingress}, single{ports.IngressFIFO}
	huge := message("orders", "b", "huge")
	huge.Body = make([]byte, queue.MaxLarge+1)
	errs := feed{w.ways().Over(ports)}.Enqueue(t.Context(), []record.Message{
		message("orders", "a", "a1"), huge, message("orders", "a", "a2"), message("orders", "b", "b2"), message("numbers", "a", "n1"), message("orders", "b", "b3"),
		message("orders", "c", "c1"), message("orders", "a", "a3"),
	})
	for i, failed := range []bool{false, true, false, true, false, true, false, false} {
		if failed != (errs[i] != nil) {
			t.Errorf("message %d: %v", i, errs[i])
		}
	}
	w.want(map[string][]string{"ingress.fifo": {"a1", "c1", "a2", "a3"}, "ingress": {"n1"}})
	sends := 0
	for _, line := range w.calls {
		if line == "ingress.fifo: a2" || line == "ingress.fifo: a3" {
			sends++
		}
	}
	if sends != 2 || len(w.calls) > 5 {
		t.Errorf("calls: %q", w.calls)
	}
}

func TestAQueueThatTakesAllOrNoneGetsAllGroupsWithOneSend(t *testing.T) {
	w := newWorld(t)
	huge := message("orders", "b", "huge")
	huge.Body = make([]byte, queue.MaxLarge+1)
	errs := w.ways().EnqueueAll(t.Context(), []record.Message{
		message("orders", "a", "a1"), huge, message("orders", "a", "a2"), message("orders", "b", "b2"), message("numbers", "a", "n1"), message("orders", "c", "c1"),
	})
	for i, failed := range []bool{false, true, false, true, false, false} {
		if failed != (errs[i] != nil) {
			t.Errorf("message %d: %v", i, errs[i])
		}
	}
	w.want(map[string][]string{"ingress.fifo": {"a1", "a2", "c1"}, "ingress": {"n1"}})
	if len(w.calls) != 2 {
		t.Errorf("calls: %q", w.calls)
	}
}

func TestManyMessagesOfManyGroupsAreAllPutOnAQueueThatTakesTen(t *testing.T) {
	w := newWorld(t)
	ports := w.ports()
	ports.Ingress, ports.IngressFIFO = single{ports.Ingress}, single{ports.IngressFIFO}
	var messages []record.Message
	want := map[string]bool{}
	for i := range 95 {
		id := strconv.Itoa(i)
		messages, want[id] = append(messages, message("orders", id, id)), true
	}
	for i, err := range w.ways().Over(ports).EnqueueAll(t.Context(), messages) {
		if err != nil {
			t.Errorf("message %d: %v", i, err)
		}
	}
	for _, d := range w.peek("ingress.fifo") {
		m, _, err := wire.FromQueue(&d, trusting())
		if err != nil || !want[m.ID] {
			t.Errorf("message %s: %v", m.ID, err)
		}
		delete(want, m.ID)
	}
	if len(want) > 0 || len(w.calls) != 10 {
		t.Errorf("%d are missing after %d calls", len(want), len(w.calls))
	}
}

// A mute queue accepts all messages, and returns a result for all but the last.
type mute struct{ queue.Queue }

func (q mute) Send(ctx context.Context, messages []queue.Message) []queue.SendResult {
	return q.Queue.Send(ctx, messages)[:len(messages)-1]
}

func TestAQueueThatDoesNotAnswerForEachMessageHasTakenNone(t *testing.T) {
	w := newWorld(t)
	ports := w.ports()
	ports.Ingress, ports.IngressFIFO, ports.PublishFIFO, ports.Dead = mute{ports.Ingress}, mute{ports.IngressFIFO}, mute{ports.PublishFIFO}, mute{ports.Dead}
	q := w.ways().Over(ports)
	for i, err := range (feed{q}).Enqueue(t.Context(), []record.Message{message("orders", "a", "a1"), message("orders", "b", "b1"), message("numbers", "a", "n1"), message("orders", "a", "a2")}) {
		if err == nil {
			t.Errorf("message %d counts as fed", i)
		}
	}
	w.want(map[string][]string{"ingress.fifo": {"a1", "b1"}, "ingress": {"n1"}})
	for name, err := range map[string]error{
		"enqueue": q.Enqueue(t.Context(), message("orders", "a", "x")), "return": q.Return(t.Context(), []record.Message{message("orders", "a", "x")}),
		"trigger": q.Trigger(t.Context(), []record.GroupKey{{Stream: "orders", Group: "a"}}, 0), "dead letter": q.DeadLetter(t.Context(), []record.Refused{{Message: message("orders", "a", "x")}}),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestARefusedMessageIsRedrivenUnderItsIdentity(t *testing.T) {
	w := newWorld(t)
	q, ctx := w.ways(), t.Context()
	late := message("orders", "g", "late")
	late.Accepted = noon.Add(-48 * time.Hour)
	if err := q.DeadLetter(ctx, []record.Refused{
		{Message: late, Reason: record.ReasonExpired},
		{Message: message("numbers", "g", "number"), Reason: record.ReasonAttempts},
		{Delivery: &record.Delivery{Identity: "orders/g/1", Stream: "orders", Group: "g", Number: 1}, To: "shop", Reason: record.ReasonInvalid},
	}); err != nil {
		t.Fatal(err)
	}
	w.now = noon.Add(time.Hour)
	for _, name := range []string{"dead", "dead-publish"} {
		for _, d := range w.ready(name) {
			r, err := wire.FromDeadLetter(&d, trusting())
			if err = errors.Join(err, q.Redrive(ctx, r)); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.want(map[string][]string{"ingress.fifo": {"late"}, "ingress": {"number"}, "publish.fifo": {"effect"}})
	m, _, err := wire.FromQueue(&w.peek("ingress.fifo")[0], trusting())
	if err != nil || m.ID != "late" || !m.Accepted.Equal(w.now) {
		t.Errorf("the message that had expired is %+v, %v", m, err)
	}
}

func TestOverRoutesToOtherPorts(t *testing.T) {
	one, other := newWorld(t), newWorld(t)
	if err := one.ways().Over(other.ports()).Enqueue(t.Context(), message("numbers", "g", "number")); err != nil {
		t.Fatal(err)
	}
	one.want(map[string][]string{})
	other.want(map[string][]string{"ingress": {"number"}})
}

// A partly is a queue that does not accept its second message.
type partly struct{ queue.Queue }

func (p partly) Send(ctx context.Context, messages []queue.Message) []queue.SendResult {
	results := p.Queue.Send(ctx, append(messages[:1:1], messages[2:]...))
	return append(append(results[:1:1], queue.SendResult{Err: errors.New("queue is full")}), results[1:]...)
}

func TestEachDeadLetterHasItsOwnResult(t *testing.T) {
	w := newWorld(t)
	ports := w.ports()
	ports.Dead = partly{ports.Dead}
	effect := record.Refused{Delivery: &record.Delivery{Identity: "orders/g/1", Stream: "orders", Group: "g", Number: 1}, To: "shop", Reason: record.ReasonInvalid}
	err := w.ways().Over(ports).DeadLetter(t.Context(), []record.Refused{{Message: message("orders", "g", "a")}, effect, {Message: message("orders", "g", "b")}, {Message: message("orders", "g", "c")}})
	for i, err := range record.ErrorsOf(err, 4) {
		if (err != nil) != (i == 2) {
			t.Errorf("letter %d: %v", i, err)
		}
	}
	w.want(map[string][]string{"dead": {"a", "c"}, "dead-publish": {"effect"}})
}
