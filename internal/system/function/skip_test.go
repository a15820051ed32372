package function

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue/sqsqueue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/function/tasks"
	"github.com/effectively-once/once/internal/testkit/awstest"
)

func TestTheSkipTaskMakesAPendingEffectADeadLetterAndTriggersItsGroup(t *testing.T) {
	m := openMended(t, Publish)
	for _, id := range []string{"o-1", "o-2"} {
		if out := m.pipeline.Engine.Process(t.Context(), []record.Message{m.order(id)}); out[0].Kind != record.Processed {
			t.Fatalf("%+v", out)
		}
	}
	awstest.Take(t, sqsqueue.New(m.clients.SQS, m.settings.Queues.PublishFIFO)) // the triggers, which may be hidden for long
	o := m.order("o-2")
	skip := func(number string) tasks.Skipped {
		task := `{"once": "skip", "stream": "` + o.Stream + `", "group": "` + o.GroupName() + `", "number": ` + number + `}`
		answer, err := m.Handler()(t.Context(), json.RawMessage(task))
		if err != nil {
			t.Fatal(err)
		}
		return answer.(tasks.Skipped)
	}
	if d := cmp.Diff(tasks.Skipped{Destinations: []string{"shop"}}, skip("1")); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	for _, number := range []string{"1", "7"} {
		if d := cmp.Diff(tasks.Skipped{Destinations: []string{}}, skip(number)); d != "" {
			t.Errorf("%s is not pending (-want +got)\n%s", number, d)
		}
	}
	letters := awstest.Take(t, sqsqueue.New(m.clients.SQS, m.settings.Queues.DeadPublish))
	if len(letters) != 1 {
		t.Fatalf("%d dead letters", len(letters))
	}
	r, err := wire.FromDeadLetter(&letters[0], wire.Defaults{Trusted: []string{letters[0].Sender}})
	if err != nil || r.Reason != record.ReasonUndeliverable || r.Delivery == nil || r.Delivery.Number != 1 || r.Delivery.Committed.IsZero() != true {
		t.Errorf("%+v, %v", r, err)
	}
	groups, _, err := m.store.Load(t.Context(), []record.GroupKey{o.GroupKey()}, nil)
	if err != nil || len(groups[0].Pending) != 1 || groups[0].Pending[0].Number != 2 || groups[0].Pending[0].Committed.IsZero() {
		t.Errorf("pending %+v, %v", groups[0].Pending, err)
	}
}

func TestOnlyThePublishFunctionSkips(t *testing.T) {
	s, _ := openOffline(t, Process)
	if _, err := s.do(t.Context(), tasks.Task{Once: tasks.Skip, Group: "g", Number: 1}); err == nil || !strings.Contains(err.Error(), "does not publish") {
		t.Errorf("%v", err)
	}
}
