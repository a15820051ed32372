package function

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/effectively-once/once/internal/admin/deadletter"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/function/environment"
	"github.com/effectively-once/once/internal/system/function/tasks"
	"github.com/effectively-once/once/internal/testkit/awstest"
	"github.com/effectively-once/once/internal/testkit/eventually"
)

// A mended system has dead letters that a redrive can process.
type mended struct {
	*System
	settings environment.Settings
	clients  Clients
	accepted time.Time // of all of its messages
}

func openMended(t *testing.T, function Function, trusted ...string) *mended {
	t.Helper()
	settings, clients := emulated(t, webhookConfig)
	if trusted != nil {
		settings.Trusted = trusted
	}
	s, err := Open(function, settings, clients, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &mended{s, settings, clients, time.Now().UTC().Add(-time.Hour).Truncate(time.Second)}
}

func (m *mended) redrive(t *testing.T, task string) tasks.Redriven {
	t.Helper()
	answer, err := m.Handler()(t.Context(), json.RawMessage(task))
	if err != nil {
		t.Fatal(err)
	}
	out, ok := answer.(tasks.Redriven)
	if !ok {
		t.Fatalf("answered %T", answer)
	}
	return out
}

func (m *mended) refuse(t *testing.T, refused ...record.Refused) {
	t.Helper()
	if err := m.pipeline.Queues.DeadLetter(t.Context(), refused); err != nil {
		t.Fatal(err)
	}
}

// put sends a message unchanged.
func (m *mended) put(t *testing.T, url string, x queue.Message) {
	t.Helper()
	if r := sqsqueue.New(m.clients.SQS, url).Send(t.Context(), []queue.Message{x})[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
}

// messages returns the messages of the ingress queue, decoded like the process function.
func (m *mended) messages(t *testing.T) []record.Message {
	t.Helper()
	var out []record.Message
	for _, x := range awstest.Take(t, sqsqueue.New(m.clients.SQS, m.settings.Queues.IngressFIFO)) {
		// as ElasticMQ calls all senders
		message, _, err := wire.FromQueue(&x, wire.Defaults{Trusted: []string{"127.0.0.1"}})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, message)
	}
	slices.SortFunc(out, func(a, b record.Message) int { return strings.Compare(a.ID, b.ID) })
	return out
}

const ann = "iam:arn:aws:sts::000000000000:assumed-role/ann"

func (m *mended) order(id string) record.Message {
	return record.Message{Principal: ann, Stream: "orders", ID: id, Group: "g", Body: []byte("{}"), Accepted: m.accepted}
}

func (m *mended) refusal(id string, reason record.Reason) record.Refused {
	return record.Refused{Message: m.order(id), Reason: reason, Detail: "as it says"}
}

func ignoringUntil() cmp.Option { return cmpopts.IgnoreFields(tasks.Redriven{}, "Until", "Filter") }

func TestARedriveKeepsPrincipalAndAcceptance(t *testing.T) {
	m := openMended(t, Process)
	m.refuse(t, m.refusal("1", record.ReasonHandler))
	given := wire.ToQueue(m.order("2")) // as a queue moves a message beyond its limit of receives
	m.put(t, m.settings.Queues.DeadFIFO, given)
	if d := cmp.Diff(tasks.Redriven{Answered: 1, Done: true}, m.redrive(t, `{"once":"redrive","queue":"ingress-dead"}`), ignoringUntil()); d != "" {
		t.Fatalf("a letter whose caller was answered (-want +got)\n%s", d)
	}
	for _, name := range []string{tasks.DeadIngress, tasks.DeadIngressFIFO} {
		got := m.redrive(t, `{"once":"redrive","answered":true,"queue":"`+name+`"}`)
		if d := cmp.Diff(tasks.Redriven{Redriven: 1, Done: true}, got, ignoringUntil()); d != "" {
			t.Errorf("%s (-want +got)\n%s", name, d)
		}
	}
	got := m.messages(t)
	if len(got) == 2 && got[0].Accepted.After(m.accepted) { // its answer is taken back: it is new
		got[0].Accepted = m.accepted
	} else {
		t.Errorf("put back: %+v", got)
	}
	if d := cmp.Diff([]record.Message{m.order("1"), m.order("2")}, got); d != "" {
		t.Errorf("put back (-want +got)\n%s", d)
	}
	if left := append(awstest.Take(t, sqsqueue.New(m.clients.SQS, m.settings.Queues.Dead)), awstest.Take(t, sqsqueue.New(m.clients.SQS, m.settings.Queues.DeadFIFO))...); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// TestARedriveBelievesTrustedSendersOnly has a dead letter of a sender who may write to the queue
// and claims to be ann. Its function must not pass the claim on, because messages of its role are
// trusted.
func TestARedriveBelievesTrustedSendersOnly(t *testing.T) {
	m := openMended(t, Process, "AROAPROCESS")
	m.put(t, m.settings.Queues.Dead, wire.ToQueue(m.order("1")))
	if got := m.redrive(t, `{"once":"redrive","answered":true,"queue":"ingress-dead"}`); got.Redriven != 1 {
		t.Fatalf("got %+v", got)
	}
	got := m.messages(t)
	if len(got) != 1 || got[0].Principal != "" || got[0].Accepted.Equal(m.order("1").Accepted) || got[0].ID != "1" {
		t.Errorf("put back: %+v", got)
	}
}

func TestPublishRedrivesEffectsAndTriggers(t *testing.T) {
	m := openMended(t, Publish)
	delivery := &record.Delivery{Identity: "orders/g/3", Stream: "orders", Group: "g", Number: 3, Effect: record.Effect{To: []string{"shop"}, Body: []byte("x")}}
	m.refuse(t, record.Refused{Delivery: delivery, To: "shop", Reason: record.ReasonGone})
	key := record.GroupKey{Stream: "orders", Group: "other"}
	m.put(t, m.settings.Queues.DeadPublishFIFO, wire.ToTrigger(key))
	m.redrive(t, `{"once":"redrive","answered":true,"queue":"publish-dead"}`)
	m.redrive(t, `{"once":"redrive","answered":true,"queue":"publish-dead.fifo"}`)
	var got []wire.Trigger
	for _, x := range awstest.Take(t, sqsqueue.New(m.clients.SQS, m.settings.Queues.PublishFIFO)) {
		trigger, err := wire.FromTrigger(&x)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, trigger)
	}
	slices.SortFunc(got, func(a, b wire.Trigger) int { return strings.Compare(a.Group.Group, b.Group.Group) })
	want := []wire.Trigger{{Group: record.GroupKey{Stream: "orders", Group: "g"}, Delivery: delivery, To: "shop"}, {Group: key}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("put back (-want +got)\n%s", d)
	}
}

func TestARedriveTakesTheRequestedLettersAndReleasesTheOthers(t *testing.T) {
	m := openMended(t, Process)
	for i := range 3 {
		m.refuse(t, m.refusal(fmt.Sprint("a", i), record.ReasonHandler), m.refusal(fmt.Sprint("b", i), record.ReasonUnknown))
	}
	m.put(t, m.settings.Queues.Dead, queue.Message{Body: "x", Attributes: map[string]string{"once-stream": "orders", "once-sequence": "seven"}})
	first := m.redrive(t, `{"once":"redrive","answered":true,"queue":"ingress-dead","reason":"unknown","max":2}`)
	if first.Redriven != 2 || !first.Done {
		t.Errorf("at most two: %+v", first)
	}
	second := m.redrive(t, `{"once":"redrive","answered":true,"queue":"ingress-dead","reason":"unknown"}`)
	if d := cmp.Diff(tasks.Redriven{Redriven: 1, Left: 4, Done: true}, second, ignoringUntil()); d != "" {
		t.Errorf("by reason (-want +got)\n%s", d)
	}
	third := m.redrive(t, `{"once":"redrive","answered":true,"queue":"ingress-dead"}`)
	if third.Redriven != 3 || third.Failed != 1 || !third.Done || len(third.Failures) != 1 || !strings.Contains(third.Failures[0].Error, "once-sequence") {
		t.Errorf("all: %+v", third)
	}
	if left := awstest.Take(t, sqsqueue.New(m.clients.SQS, m.settings.Queues.Dead)); len(left) != 1 {
		t.Errorf("%d left", len(left))
	}
}

func TestALetterRefusedAgainStaysForTheNextRedrive(t *testing.T) {
	m := openMended(t, Process)
	m.refuse(t, m.refusal("1", record.ReasonHandler))
	first := m.redrive(t, `{"once":"redrive","answered":true,"queue":"ingress-dead"}`)
	eventually.Succeeds(t, func() error {
		if time.Since(first.Until) < 2*time.Millisecond { // real time: the queue's times are in milliseconds
			return errors.New("the clock has not moved")
		}
		return nil
	})
	m.refuse(t, m.refusal("1", record.ReasonHandler))
	task, err := json.Marshal(tasks.Task{Once: tasks.Redrive, Queue: tasks.DeadIngress, Until: first.Until, Answered: true})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(tasks.Redriven{Left: 1, Done: true, Until: first.Until}, m.redrive(t, string(task))); d != "" {
		t.Errorf("the same run (-want +got)\n%s", d)
	}
	if next := m.redrive(t, `{"once":"redrive","answered":true,"queue":"ingress-dead"}`); next.Redriven != 1 {
		t.Errorf("the next run: %+v", next)
	}
}

func TestADeadLetterStaysUntilItsQueueHasAcknowledgedIt(t *testing.T) {
	m := openMended(t, Process)
	m.refuse(t, m.refusal("1", record.ReasonHandler))
	m.settings.Queues.IngressFIFO = strings.TrimSuffix(m.settings.Queues.IngressFIFO, ".fifo") + "-gone.fifo"
	broken, err := Open(Process, m.settings, m.clients, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.System = broken
	if got := m.redrive(t, `{"once":"redrive","answered":true,"queue":"ingress-dead"}`); got.Failed != 1 || !got.Done {
		t.Errorf("got %+v", got)
	}
	if left := awstest.Take(t, sqsqueue.New(m.clients.SQS, m.settings.Queues.Dead)); len(left) != 1 {
		t.Errorf("%d left", len(left))
	}
}

func TestARedriveEndsBeforeItsFunctionDoes(t *testing.T) {
	m := openMended(t, Process)
	m.refuse(t, m.refusal("1", record.ReasonHandler))
	// so that its time is over before it begins
	ctx, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	answer, err := m.Handler()(ctx, json.RawMessage(`{"once":"redrive","answered":true,"queue":"ingress-dead"}`))
	if got, ok := answer.(tasks.Redriven); err != nil || !ok || got.Done || got.Redriven > 0 || got.Until.IsZero() {
		t.Errorf("got %+v, %v", answer, err)
	}
}

func TestAFunctionRedrivesItsOwnDeadLettersOnly(t *testing.T) {
	for _, c := range []struct {
		function    Function
		queue, want string
	}{
		{Process, tasks.DeadPublish, `redrive: function process has no dead-letter queue "publish-dead", but ingress-dead and ingress-dead.fifo`},
		{Publish, "", `redrive: function publish has no dead-letter queue "", but publish-dead and publish-dead.fifo`},
		{Publish, tasks.DeadPublishFIFO, "redrive: the environment names no queue publish-dead.fifo"},
	} {
		s := &System{function: c.function}
		if _, err := s.do(t.Context(), tasks.Task{Once: tasks.Redrive, Queue: c.queue}); err == nil || err.Error() != c.want {
			t.Errorf("%s, %q: %v", c.function, c.queue, err)
		}
	}
}

// TestAKillBetweenPuttingBackAndDeletingIsHarmless kills the function at that moment: the letter is
// sent twice, and is one message.
func TestAKillBetweenPuttingBackAndDeletingIsHarmless(t *testing.T) {
	m := openMended(t, Process)
	m.refuse(t, m.refusal("1", record.ReasonHandler))
	w := &deadletter.Walk{Queue: sqsqueue.New(m.clients.SQS, m.settings.Queues.Dead), Trusted: m.settings.Trusted}
	if _, err := w.Run(t.Context(), func(ctx context.Context, l *deadletter.Letter) (deadletter.Verdict, bool) {
		if err := m.pipeline.Queues.Redrive(ctx, l.Refused); err != nil {
			t.Error(err)
		}
		return deadletter.Keep, true
	}); err != nil {
		t.Fatal(err)
	}
	w.Release(t.Context(), time.Minute)
	if got := m.redrive(t, `{"once":"redrive","answered":true,"queue":"ingress-dead"}`); got.Redriven != 1 {
		t.Fatalf("got %+v", got)
	}
	got := m.messages(t)
	want := []record.Message{m.order("1"), m.order("1")}
	for i := range got {
		want[i].Accepted = got[i].Accepted // a redrive of an answered letter accepts it again
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("put back (-want +got)\n%s", d)
	}
	var kinds []record.Kind
	for _, message := range got {
		kinds = append(kinds, m.pipeline.Engine.Process(t.Context(), []record.Message{message})[0].Kind)
	}
	if d := cmp.Diff([]record.Kind{record.Processed, record.Duplicate}, kinds); d != "" {
		t.Errorf("outcomes (-want +got)\n%s", d)
	}
}

func TestATaskWithAFieldThatTheFunctionDoesNotKnowIsRefused(t *testing.T) {
	m := openMended(t, Process)
	m.refuse(t, m.refusal("1", record.ReasonHandler))
	if _, err := m.Handler()(t.Context(), json.RawMessage(`{"once":"redrive","answered":true,"queue":"ingress-dead","color":"red"}`)); err == nil || !strings.Contains(err.Error(), "color") {
		t.Errorf("got %v", err)
	}
	if got := m.messages(t); len(got) != 0 {
		t.Errorf("put back: %+v", got)
	}
}

func TestADropDeletesTheLettersOfOneStreamAndOfTheGivenMessageIDs(t *testing.T) {
	m := openMended(t, Process)
	m.refuse(t, m.refusal("1", record.ReasonHandler), m.refusal("1", record.ReasonHandler))
	q := sqsqueue.New(m.clients.SQS, m.settings.Queues.Dead)
	both, err := q.Receive(t.Context(), 10, time.Minute, 0)
	if err != nil || len(both) != 2 {
		t.Fatalf("%v, %v", both, err)
	}
	for _, d := range both {
		if err := q.ChangeVisibility(t.Context(), d.Receipt, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		filter string
		want   int
	}{{`"stream":"others"`, 0}, {`"stream":"orders","message_ids":["` + both[1].ID + `"]`, 1}, {`"stream":"orders"`, 1}} {
		answer, err := m.Handler()(t.Context(), json.RawMessage(`{"once":"drop","queue":"ingress-dead","id":"1",`+c.filter+`}`))
		got, _ := answer.(tasks.Dropped)
		if err != nil || got.Dropped != c.want {
			t.Errorf("%s: %+v, %v", c.filter, answer, err)
		}
		if c.want == 1 && strings.Contains(c.filter, "message_ids") && got.Letters[0].MessageID != both[1].ID {
			t.Errorf("dropped %+v", got.Letters)
		}
	}
}
