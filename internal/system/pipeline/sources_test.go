package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

const sourced = `
streams:
  orders:  {destinations: [ledger]}
  uploads: {destinations: [ledger]}
destinations:
  ledger: {file: ledger.jsonl}
ingress:
  orders:  {from: eventbridge, id: $.order}
  uploads: {from: s3}
`

// openSourced makes a pipeline with the queues q-orders and q-uploads of two sources.
func openSourced(t *testing.T, w *world, text string, store record.Store, l *ledger, ports Ports) *Pipeline {
	t.Helper()
	p, err := New(Config{
		Config: parsed(t, text), Store: store, Ports: ports, Open: opener(l), Trusted: []string{wire.Sender},
		Sources: map[string]string{"q-orders": "orders", "q-uploads": "uploads"}, Now: w.clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// from returns deliveries of a queue of a source; each has an id of its own.
func from(name string, bodies ...string) []queue.Delivery {
	out := make([]queue.Delivery, len(bodies))
	for i, body := range bodies {
		out[i] = queue.Delivery{Message: queue.Message{Body: body, Sender: "somebody"}, Queue: name, ID: fmt.Sprint("m-", i), Receives: 1, Sent: noon}
	}
	return out
}

func upload(key, sequencer string) string {
	return fmt.Sprintf(`{"eventName":"ObjectCreated:Put","s3":{"bucket":{"name":"b"},"object":{"key":%q,"sequencer":%q}}}`, key, sequencer)
}

func notification(records ...string) string {
	return `{"Records": [` + strings.Join(records, " , ") + `]}`
}

// handled handles deliveries, and then runs the other functions until all queues are empty.
func (w *world) handled(p *Pipeline, batch []queue.Delivery) []queue.Disposition {
	w.t.Helper()
	out := p.Messages()(w.t.Context(), batch)
	w.run(p)
	return out
}

func TestAnEventOfASourceHasOneEffectHoweverOftenItIsDelivered(t *testing.T) {
	w, l := newWorld(t), &ledger{}
	p := openSourced(t, w, sourced, memstore.New(w.clock), l, w.ports())
	events := from("q-orders", `{"order":"o-1"}`, `{"order":"o-2"}`, `{"order":"o-1"}`)
	for range 2 {
		if d := cmp.Diff(make([]queue.Disposition, 3), w.handled(p, events)); d != "" {
			t.Errorf("dispositions (-want +got):\n%s", d)
		}
	}
	slices.Sort(l.lines)
	if d := cmp.Diff([]string{`orders/o-1@ingress:orders {"order":"o-1"}`, `orders/o-2@ingress:orders {"order":"o-2"}`}, l.lines); d != "" {
		t.Errorf("effects (-want +got):\n%s", d)
	}
}

// placed returns an event of EventBridge.
func placed(id, detail string) string {
	return fmt.Sprintf(`{"id":%q,"time":%q,"detail-type":"Placed","source":"shop","detail":%s}`, id, "of "+id, detail)
}

func TestAnEventThatIsPutAgainWhenTheFunctionHasDiedAfterItsCommitHasOneEffect(t *testing.T) {
	w, l := newWorld(t), &ledger{}
	p := openSourced(t, w, strings.Replace(sourced, "$.order", "$.detail.order", 1), memstore.New(w.clock), l, w.ports())
	for _, id := range []string{"1", "1", "2"} { // nothing is published in between
		batch := from("q-orders", placed(id, `{"order":"o-1"}`), placed(id+"-b", `{"order":"o-2"}`))
		if d := cmp.Diff(make([]queue.Disposition, 2), p.Messages()(t.Context(), batch)); d != "" {
			t.Errorf("dispositions (-want +got):\n%s", d)
		}
	}
	w.run(p)
	if letters := w.ready("dead"); len(letters) != 0 || len(l.lines) != 2 {
		t.Errorf("%d dead letters, effects %q", len(letters), l.lines)
	}
}

func TestAnEventThatItsProducerPutsAgainIsNoKeyReuseAlsoIfItIsRedriven(t *testing.T) {
	w, l := newWorld(t), &ledger{}
	p := openSourced(t, w, strings.Replace(sourced, "$.order", "$.detail.order", 1), memstore.New(w.clock), l, w.ports())
	w.handled(p, from("q-orders", placed("1", `{"order":"o-1"}`)))
	w.handled(p, from("q-orders", placed("2", `{"order": "o-1"}`), placed("3", `{"order":"o-1"}`)))
	if letters := w.ready("dead"); len(letters) != 0 || len(l.lines) != 1 {
		t.Fatalf("%d dead letters, effects %q", len(letters), l.lines)
	}
	read, err := p.Source("q-orders").Read(&from("q-orders", placed("4", `{"order":"o-1"}`))[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Queues.EnqueueAll(t.Context(), read.Messages)...); err != nil {
		t.Fatal(err)
	}
	w.run(p)
	w.handled(p, from("q-orders", placed("5", `{"order":"o-1","items":2}`)))
	letters := w.ready("dead")
	if len(letters) != 1 || len(l.lines) != 1 {
		t.Fatalf("%d dead letters, effects %q", len(letters), l.lines)
	}
	if r, err := wire.FromDeadLetter(&letters[0], trusting()); err != nil || r.Reason != record.ReasonKeyReuse || !strings.Contains(string(r.Message.Body), `"items":2`) {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestSeveralRecordsOfOneNotificationHaveOneEffectEachAloneOrTogether(t *testing.T) {
	w, l := newWorld(t), &ledger{}
	p := openSourced(t, w, sourced, memstore.New(w.clock), l, w.ports())
	one, two, three := upload("a", "01"), upload("b", "01"), upload("a", "02")
	batch := from("q-uploads", notification(one, two), notification(one), `{"Event":"s3:TestEvent"}`, notification(three, two, one))
	for range 2 {
		if d := cmp.Diff(make([]queue.Disposition, 4), w.handled(p, batch)); d != "" {
			t.Errorf("dispositions (-want +got):\n%s", d)
		}
	}
	slices.Sort(l.lines)
	want := []string{"uploads/b/a/1 " + `{"Records":[` + one + "]}", "uploads/b/a/2 " + `{"Records":[` + three + "]}", "uploads/b/b/1 " + `{"Records":[` + two + "]}"}
	if len(l.lines) == 3 && strings.Contains(l.lines[0], `"02"`) { // the two of one object have no order between them
		want[0], want[1] = "uploads/b/a/1 "+`{"Records":[`+three+"]}", "uploads/b/a/2 "+`{"Records":[`+one+"]}"
	}
	if d := cmp.Diff(want, l.lines); d != "" {
		t.Errorf("effects (-want +got):\n%s", d)
	}
}

func TestANotificationOfWhichAPartCouldNotBeSentIsDeliveredAgain(t *testing.T) {
	w, l := newWorld(t), &ledger{}
	ports, lost := w.ports(), errors.New("no answer")
	failing := &losing{Queue: ports.IngressFIFO, err: lost}
	ports.IngressFIFO = failing
	p := openSourced(t, w, sourced, memstore.New(w.clock), l, ports)
	batch := from("q-uploads", notification(upload("a", "01"), upload("b", "01")), notification(upload("c", "01")))
	got := w.handled(p, batch)
	if d := cmp.Diff([]queue.Disposition{{Retry: true}, {}}, got); d != "" {
		t.Errorf("dispositions (-want +got):\n%s", d)
	}
	failing.err = nil
	if d := cmp.Diff([]queue.Disposition{{}}, w.handled(p, batch[:1])); d != "" {
		t.Errorf("after the repetition (-want +got):\n%s", d)
	}
	if len(l.lines) != 3 {
		t.Errorf("effects %q", l.lines)
	}
}

// losing sends messages, and loses the answers for all but the first of a call.
type losing struct {
	queue.Queue
	err error
}

func (q *losing) Send(ctx context.Context, messages []queue.Message) []queue.SendResult {
	out := q.Queue.Send(ctx, messages)
	for i := range out[1:] {
		out[i+1].Err = q.err
	}
	return out
}

func TestADeadLetterOfASourceIsReadAgainWhenItsPathIsRight(t *testing.T) {
	w, l := newWorld(t), &ledger{}
	store := memstore.New(w.clock)
	wrong := openSourced(t, w, strings.Replace(sourced, "$.order", "$.ordre", 1), store, l, w.ports())
	w.handled(wrong, from("q-orders", `{"order":"o-1"}`))
	letters := w.ready("dead")
	if len(letters) != 1 {
		t.Fatalf("%d dead letters, effects %q", len(letters), l.lines)
	}
	r, err := wire.FromDeadLetter(&letters[0], trusting())
	if err != nil || r.Reason != record.ReasonInvalid || !strings.Contains(r.Detail, "id of ingress.orders: $.ordre is missing") {
		t.Fatalf("%+v, %v", r, err)
	}
	right := openSourced(t, w, sourced, store, l, w.ports())
	for range 2 { // a redrive may be repeated
		if err := right.Queues.Redrive(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	w.handled(right, from("q-orders", `{"order":"o-1"}`)) // its source repeats it too
	if d := cmp.Diff([]string{`orders/o-1@ingress:orders {"order":"o-1"}`}, l.lines); d != "" {
		t.Errorf("effects (-want +got):\n%s", d)
	}
}

func TestADeadLetterOfASourceThatIsGoneSaysSo(t *testing.T) {
	w, l := newWorld(t), &ledger{}
	p := openSourced(t, w, sourced, memstore.New(w.clock), l, w.ports())
	d := from("q-orders", `{}`)[0]
	m := p.Source("q-orders").Unread(&d)
	m.Headers[wire.HeaderUnread], m.Principal = "gone", "ingress:gone"
	if err := p.Queues.Enqueue(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	w.run(p)
	letters := w.ready("dead")
	if len(letters) != 1 || !strings.Contains(letters[0].Attributes[wire.AttrReason], "names ingress.gone, which the configuration has no more") {
		t.Errorf("dead letters %+v", letters)
	}
}

func TestAQueueOfAnUnknownSourceIsAnError(t *testing.T) {
	w := newWorld(t)
	_, err := New(Config{Config: parsed(t, sourced), Store: memstore.New(w.clock), Ports: w.ports(), Open: opener(&ledger{}), Sources: map[string]string{"q": "nobody"}})
	if err == nil || !strings.Contains(err.Error(), `queue q belongs to ingress "nobody"`) {
		t.Errorf("%v", err)
	}
}
