package function

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/delay"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/function/environment"
	"github.com/effectively-once/once/internal/system/function/tasks"
	"github.com/effectively-once/once/internal/testkit/awstest"
	"github.com/effectively-once/once/internal/testkit/eventually"
)

const sweptConfig = `
streams:
  steps: {admission: sequence, gap: {policy: skip, after: 1ms}, destinations: [shop]}
destinations:
  shop: {webhook: "http://127.0.0.1:1/"}
`

// openSwept opens a system with tables and queues of its own, in this process.
func openSwept(t *testing.T, function Function) (*System, *sqsqueue.Queue) {
	t.Helper()
	settings, clients := emulated(t, sweptConfig)
	s, err := Open(function, settings, clients, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s, sqsqueue.New(clients.SQS, settings.Queues.PublishFIFO)
}

// emulated makes tables and queues on emulators, for a system with a configuration.
func emulated(t *testing.T, text string) (environment.Settings, Clients) {
	t.Helper()
	clients := NewClients(awstest.Config(t, "DYNAMODB", "SQS"))
	name := "test-" + rand.Text()
	// as ElasticMQ calls all senders
	settings := environment.Settings{Tables: awstest.Tables(t, clients.DynamoDB), Trusted: []string{"127.0.0.1"}}
	queues := &settings.Queues
	for suffix, url := range map[string]*string{
		"ingress": &queues.Ingress, "ingress.fifo": &queues.IngressFIFO, "publish": &queues.Publish, "publish.fifo": &queues.PublishFIFO,
		"dead": &queues.Dead, "dead-publish": &queues.DeadPublish, "dead.fifo": &queues.DeadFIFO, "dead-publish.fifo": &queues.DeadPublishFIFO,
	} {
		*url = awstest.Queue(t, clients.SQS, name+"-"+suffix, nil)
	}
	var err error
	if settings.Config, err = config.Parse("once.yaml", []byte(text)); err != nil {
		t.Fatal(err)
	}
	return settings, clients
}

func do(t *testing.T, h Handler, event string) tasks.Swept {
	t.Helper()
	answer, err := h(t.Context(), json.RawMessage(event))
	if err != nil {
		t.Fatal(err)
	}
	swept, ok := answer.(tasks.Swept)
	if !ok {
		t.Fatalf("answered %T", answer)
	}
	return swept
}

func step(n uint64) record.Message {
	return record.Message{Stream: "steps", Source: "s", Sequence: n, Body: []byte("{}")}
}

func TestTheScheduleClosesGapsOfGroupsThatHoldMessages(t *testing.T) {
	s, _ := openSwept(t, Process)
	out := s.pipeline.Engine.Process(t.Context(), []record.Message{step(2)})
	if out[0].Kind != record.HeldBack {
		t.Fatalf("the second message is %s: %v", out[0].Kind, out[0].Err)
	}
	eventually.Succeeds(t, func() error { // until the gap is older than its stream's gap time
		if diff := cmp.Diff(tasks.Swept{Groups: 1, Done: true}, do(t, s.Handler(), `{"once":"sweep"}`)); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
	if out := s.pipeline.Engine.Process(t.Context(), []record.Message{step(2)}); out[0].Kind != record.Duplicate {
		t.Errorf("after the sweep, a copy of the held message is %s", out[0].Kind)
	}
	if diff := cmp.Diff(tasks.Swept{Done: true}, do(t, s.Handler(), `{"once":"sweep"}`)); diff != "" {
		t.Errorf("a second sweep finds something:\n%s", diff)
	}
}

func TestAWholeSweepTriggersStrandedEffects(t *testing.T) {
	s, triggers := openSwept(t, Publish)
	if out := s.pipeline.Engine.Process(t.Context(), []record.Message{step(1)}); out[0].Kind != record.Processed {
		t.Fatalf("the message is %s: %v", out[0].Kind, out[0].Err)
	}
	lose(t, triggers)

	if diff := cmp.Diff(tasks.Swept{Groups: 1, Done: true}, do(t, s.Handler(), `{"once":"sweep-all"}`)); diff != "" {
		t.Error(diff)
	}
	lose(t, triggers)
}

// unfinishedGroups makes groups with work that no worker finishes.
func unfinishedGroups(t *testing.T, s *System, n int) []record.GroupKey {
	t.Helper()
	keys := make([]record.GroupKey, n)
	for i := range keys {
		keys[i] = record.GroupKey{Stream: "steps", Group: fmt.Sprint(i)}
		c := record.Commit{Loaded: record.Group{Key: keys[i]}, Next: record.Group{Key: keys[i], Incarnation: 1, Version: 1, Retention: time.Hour}, Attempt: "a"}
		if err := s.store.Commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	return keys
}

// corrupt makes a group's record unreadable.
func corrupt(t *testing.T, client *dynamodb.Client, table string, key record.GroupKey) {
	t.Helper()
	if _, err := client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: &table, UpdateExpression: aws.String("SET v = :v"), ConditionExpression: aws.String("attribute_exists(v)"),
		Key:                       map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: key.Stream + "#" + key.Group}, "sk": &types.AttributeValueMemberS{Value: "STATE"}},
		ExpressionAttributeValues: map[string]types.AttributeValue{":v": &types.AttributeValueMemberBOOL{Value: true}},
	}); err != nil {
		t.Fatal(err)
	}
}

func TestASweepBeginsAnywhereAndVisitsEachReadableGroupOnce(t *testing.T) {
	settings, clients := emulated(t, sweptConfig)
	s, err := Open(Process, settings, clients, nil)
	if err != nil {
		t.Fatal(err)
	}
	keys := unfinishedGroups(t, s, 2*listPage+50)
	want := map[record.GroupKey]int{}
	for i, key := range keys {
		if i%50 == 7 {
			corrupt(t, clients.DynamoDB, settings.Tables.Groups, key)
			continue
		}
		want[key] = 1
	}
	begun := map[record.GroupKey]bool{}
	for range 10 {
		got := map[record.GroupKey]int{}
		for key, err := range s.unfinished(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if len(got) == 0 {
				begun[key] = true
			}
			got[key]++
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	}
	if len(begun) == 1 {
		t.Error("ten sweeps began with the same group")
	}
}

func TestCorruptGroupsDoNotEndASweep(t *testing.T) {
	settings, clients := emulated(t, sweptConfig)
	s, err := Open(Process, settings, clients, nil)
	if err != nil {
		t.Fatal(err)
	}
	keys := unfinishedGroups(t, s, 3)
	for _, step := range []struct {
		damaged []record.GroupKey
		want    int
	}{{keys[:1], 2}, {keys[1:], 0}} {
		for _, key := range step.damaged {
			corrupt(t, clients.DynamoDB, settings.Tables.Groups, key)
		}
		if diff := cmp.Diff(tasks.Swept{Groups: step.want, Done: true}, do(t, s.Handler(), `{"once":"sweep-all"}`)); diff != "" {
			t.Error(diff)
		}
	}
}

// lose receives and deletes the only trigger of a queue.
func lose(t *testing.T, q *sqsqueue.Queue) {
	t.Helper()
	got, err := q.Receive(t.Context(), 10, time.Minute, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 {
		t.Fatalf("%d triggers", len(got))
	}
	if errs := q.Delete(t.Context(), []string{got[0].Receipt}); errs[0] != nil {
		t.Fatal(errs[0])
	}
}

func TestAnUnknownTaskIsAnError(t *testing.T) {
	s := &System{}
	_, err := s.orTask(nil)(t.Context(), json.RawMessage(`{"once":"swep"}`))
	want := `unknown task "swep": it must be sweep, sweep-all, redrive, drop or skip`
	if err == nil || err.Error() != want {
		t.Errorf("error %v, not %s", err, want)
	}
}

func TestTheScheduleMovesDelayedMessagesToSQSBeforeTheyAreDue(t *testing.T) {
	settings, clients := emulated(t, `
streams:
  orders: {destinations: [shop]}
destinations:
  shop: {webhook: "http://127.0.0.1:1/"}
`)
	s, err := Open(Process, settings, clients, nil)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	message := func(id string, after time.Duration) record.Message {
		return record.Message{Stream: "orders", ID: id, Body: []byte("{}"), Accepted: start, NotBefore: start.Add(after)}
	}
	for i, err := range s.pipeline.Queues.EnqueueAll(t.Context(), []record.Message{message("in SQS", 2*time.Second), message("soon", 16*time.Minute), message("next month", 30*24*time.Hour)}) {
		if err != nil {
			t.Fatalf("message %d: got %v, want no error", i, err)
		}
	}
	if swept := do(t, s.Handler(), `{"once":"sweep"}`); swept.Moved != 0 || !swept.Done {
		t.Errorf("the sweep is %+v, want that it moves nothing: no message is due within five minutes", swept)
	}
	ahead := delay.NewKeeper(clients.delays(settings), s.pipeline.Queues.Move, delay.Options{Ahead: moveAhead, Now: func() time.Time { return time.Now().Add(16*time.Minute - 3*time.Second) }})
	if moved, err := ahead.MoveDue(t.Context()); err != nil || moved != 1 {
		t.Errorf("close to its time, moved %d (%v), want one message", moved, err)
	}
	ingress := sqsqueue.New(clients.SQS, settings.Queues.Ingress)
	got := map[string]bool{}
	for deadline := time.Now().Add(time.Minute); len(got) < 2 && time.Now().Before(deadline); {
		deliveries, err := ingress.Receive(t.Context(), 10, time.Minute, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for i := range deliveries {
			id := deliveries[i].Attributes["once-id"]
			got[id] = true
			if took := time.Since(start); id == "in SQS" && took < 2*time.Second { // real time: a lower bound only
				t.Errorf("%s arrived after %v, want that it arrives after 2 s", id, took)
			}
		}
	}
	if !got["in SQS"] || !got["soon"] || len(got) != 2 {
		t.Errorf("SQS has delivered %v, want the messages in SQS and soon", got)
	}
	left, err := clients.delays(settings).Due(t.Context(), delay.Key{}, start.Add(record.MaxDelay), 10)
	if err != nil || len(left) != 1 || !left[0].Due.Equal(start.Add(30*24*time.Hour)) {
		t.Errorf("%+v wait (%v), want the message of next month", left, err)
	}
}
