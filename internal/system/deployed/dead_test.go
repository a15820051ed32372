package deployed_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/admin/deadletter"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/deployed"
	"github.com/effectively-once/once/internal/system/function/tasks"
)

const ann = "iam:arn:aws:sts::000000000000:assumed-role/Operator"

func refusal(id, principal string, reason record.Reason) record.Refused {
	return record.Refused{Message: order(id, principal), Reason: reason, Detail: "as it says"}
}

func effect() record.Refused {
	return record.Refused{
		Delivery: &record.Delivery{Identity: "orders/customer-7/3", Stream: "orders", Group: "customer-7", Number: 3, Effect: record.Effect{To: []string{"shop"}, Body: []byte("x")}},
		To:       "shop", Reason: record.ReasonGone, Detail: "410 Gone",
	}
}

func TestDeadLettersAreShownAndStay(t *testing.T) {
	w := newWorld(t)
	w.refuse(t, refusal("o-1", ann, record.ReasonKeyReuse), effect())
	// A trigger beyond the queue's limit of receives.
	send(t, w.queue("DeadPublishFifo"), wire.ToTrigger(record.GroupKey{Stream: "orders", Group: "g"}))
	want := []admin.DeadLetter{
		{Queue: "ingress-dead", Reason: "key-reuse", Detail: "as it says", Stream: "orders", ID: "o-1", Group: "customer-7"},
		{Queue: "publish-dead", Reason: "gone", Detail: "410 Gone", Stream: "orders", ID: "orders/customer-7/3", Group: "customer-7", Destination: "shop"},
		{Queue: "publish-dead.fifo", Reason: "attempts", Detail: "dead letter is a trigger"},
	}
	for range 2 { // looking neither removes nor hides
		got, err := w.system.DeadLetters(t.Context(), admin.DeadLettersOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got, cmpopts.IgnoreFields(admin.DeadLetter{}, "Sent", "MessageID")); d != "" {
			t.Errorf("-want +got\n%s", d)
		}
	}
	some, err := w.system.DeadLetters(t.Context(), admin.DeadLettersOptions{Reason: "gone", Queue: "publish-dead", Limit: 1})
	if err != nil || len(some) != 1 {
		t.Errorf("got %v, %v", some, err)
	}
	if _, err := w.system.DeadLetters(t.Context(), admin.DeadLettersOptions{Queue: "nowhere"}); !errors.Is(err, admin.ErrNotFound) {
		t.Errorf("an unknown queue: %v", err)
	}
}

func send(t *testing.T, q queue.Queue, m queue.Message) {
	t.Helper()
	if r := q.Send(t.Context(), []queue.Message{m})[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
}

func TestRedriveKeepsIdentityPrincipalAndAcceptance(t *testing.T) {
	w := newWorld(t)
	letter := refusal("o-1", ann, record.ReasonAttempts)
	w.refuse(t, letter, effect())
	send(t, w.queue("DeadPublishFifo"), wire.ToTrigger(record.GroupKey{Stream: "orders", Group: "g"}))
	info, err := w.system.Redrive(t.Context(), admin.RedriveOptions{})
	if err != nil || !cmp.Equal(admin.RedriveInfo{Redriven: 3}, info) {
		t.Fatalf("got %+v, %v", info, err)
	}
	if d := cmp.Diff([]record.Message{letter.Message}, w.messages(t, "IngressFifo")); d != "" {
		t.Errorf("message: -want +got\n%s", d)
	}
	var triggers []wire.Trigger
	for _, d := range w.take(t, "PublishFifo") {
		trigger, err := wire.FromTrigger(&d)
		if err != nil {
			t.Fatal(err)
		}
		triggers = append(triggers, trigger)
	}
	// the queue orders within groups only
	slices.SortFunc(triggers, func(a, b wire.Trigger) int { return strings.Compare(a.Group.Group, b.Group.Group) })
	want := []wire.Trigger{
		{Group: record.GroupKey{Stream: "orders", Group: "customer-7"}, Delivery: effect().Delivery, To: "shop"},
		{Group: record.GroupKey{Stream: "orders", Group: "g"}},
	}
	if d := cmp.Diff(want, triggers); d != "" {
		t.Errorf("triggers: -want +got\n%s", d)
	}
	if left := append(w.take(t, "Dead"), append(w.take(t, "DeadPublish"), w.take(t, "DeadPublishFifo")...)...); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// TestAnOperatorNeedsToInvokeTheFunctionsOnly has an operator whom no queue trusts, and who has no
// other permission.
func TestAnOperatorNeedsToInvokeTheFunctionsOnly(t *testing.T) {
	w := newWorld(t)
	old := refusal("o-3", "", record.ReasonAttempts)
	old.Message.Accepted = old.Message.Accepted.AddDate(0, -2, 0)
	letters := []record.Refused{refusal("o-1", ann, record.ReasonAttempts), refusal("o-2", "", record.ReasonAttempts), old}
	w.refuse(t, letters...)
	w.aws.Account, w.aws.UserID = "111111111111", "AROASOMEBODY:ann"
	w.aws.Denied = []string{"ListStackResources", "GetFunctionConfiguration", "GetCallerIdentity"}
	info, err := w.system.Redrive(t.Context(), admin.RedriveOptions{})
	if err != nil || !cmp.Equal(admin.RedriveInfo{Redriven: 3}, info) {
		t.Fatalf("got %+v, %v", info, err)
	}
	got := w.messages(t, "IngressFifo")
	slices.SortFunc(got, func(a, b record.Message) int { return strings.Compare(a.ID, b.ID) })
	want := []record.Message{letters[0].Message, letters[1].Message, old.Message}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("put back: -want +got\n%s", d)
	}
}

func TestARedriveCallsTheFunctionsUntilTheyAreDone(t *testing.T) {
	w := newWorld(t)
	until := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	var asked []tasks.Task
	answers := []tasks.Redriven{
		{Redriven: 5, Left: 1, Until: until},
		{Until: until},
		{Redriven: 2, Failed: 2, Failures: []deadletter.Failure{{MessageID: "m", Error: "gone"}}, Until: until, Done: true},
	}
	w.invoke("process", func(payload []byte) any {
		var task tasks.Task
		if err := json.Unmarshal(payload, &task); err != nil {
			t.Error(err)
		}
		asked = append(asked, task)
		answer := answers[len(asked)-1]
		answer.Filter = task.Filter
		return answer
	})
	var told []int
	system, err := w.stack.System(deployed.SystemOptions{Config: w.config, Redriven: func(info admin.RedriveInfo) { told = append(told, info.Redriven) }})
	if err != nil {
		t.Fatal(err)
	}
	info, err := system.Redrive(t.Context(), admin.RedriveOptions{Queue: "ingress-dead", Reason: "rejected", Max: 9})
	failures := []admin.RedriveFailure{{Queue: "ingress-dead", MessageID: "m", Error: "gone"}}
	if err != nil || !cmp.Equal(admin.RedriveInfo{Redriven: 7, Left: 1, Failed: 2, Failures: failures}, info) {
		t.Errorf("got %+v, %v", info, err)
	}
	task := tasks.Task{Once: "redrive", Queue: "ingress-dead", Filter: deadletter.Filter{Reason: "rejected"}, Max: 9}
	then, last := task, task
	then.Max, then.Until = 4, until
	last.Max, last.Until = 4, until
	if d := cmp.Diff([]tasks.Task{task, then, last}, asked); d != "" {
		t.Errorf("asked: -want +got\n%s", d)
	}
	if d := cmp.Diff([]int{5, 5, 7}, told); d != "" {
		t.Errorf("told: -want +got\n%s", d)
	}
}

func TestARedriveThatFindsNothingAmongTooManyEnds(t *testing.T) {
	w := newWorld(t)
	calls := 0
	w.invoke("process", func([]byte) any {
		calls++
		return tasks.Redriven{Redriven: max(0, 2-calls), Left: 1000, Filter: deadletter.Filter{Reason: "gone"}}
	})
	info, err := w.system.Redrive(t.Context(), admin.RedriveOptions{Reason: "gone"})
	if !errors.Is(err, deployed.ErrTooMany) || info.Redriven != 1 || calls != 5 {
		t.Errorf("%+v, %v after %d calls", info, err, calls)
	}
}

func TestARedriveReportsTheResultsBeforeAFunctionFailed(t *testing.T) {
	w := newWorld(t)
	w.refuse(t, refusal("o-1", ann, record.ReasonAttempts), effect())
	w.invoke("publish", nil)
	if info, err := w.system.Redrive(t.Context(), admin.RedriveOptions{}); err == nil || info.Redriven != 1 {
		t.Errorf("got %+v, %v", info, err)
	}
	delete(w.aws.Outputs, "ProcessFunction")
	w.open(t)
	var setup *deployed.SetupError
	if _, err := w.system.Redrive(t.Context(), admin.RedriveOptions{}); !errors.As(err, &setup) {
		t.Errorf("a stack whose functions can't: %v", err)
	}
}

func TestRedriveTakesOnlyTheRequestedLetters(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"a", "b", "c"} {
		w.refuse(t, refusal(id, ann, record.ReasonAttempts), refusal(id+id, ann, record.ReasonUnknown))
	}
	info, err := w.system.Redrive(t.Context(), admin.RedriveOptions{Reason: "unknown"})
	if err != nil || !cmp.Equal(admin.RedriveInfo{Redriven: 3, Left: 3}, info) {
		t.Fatalf("by reason: %+v, %v", info, err)
	}
	info, err = w.system.Redrive(t.Context(), admin.RedriveOptions{Max: 2, Queue: "ingress-dead"})
	if err != nil || !cmp.Equal(admin.RedriveInfo{Redriven: 2, Left: 1}, info) {
		t.Errorf("at most two: %+v, %v", info, err)
	}
}

func TestAStackNeedsTheTrustedSendersOfTheFunctions(t *testing.T) {
	w := newWorld(t)
	w.aws.Denied = []string{"GetFunctionConfiguration"}
	var denied *deployed.DeniedError
	if _, err := w.system.DeadLetters(t.Context(), admin.DeadLettersOptions{}); !errors.As(err, &denied) {
		t.Errorf("without permission: %v", err)
	}
	w.aws.Denied = nil
	clear(w.aws.Functions)
	var setup *deployed.SetupError
	if _, err := w.system.DeadLetters(t.Context(), admin.DeadLettersOptions{}); !errors.As(err, &setup) {
		t.Errorf("without functions: %v", err)
	}
}

func TestADeadLetterIsShownWithItsContentByItsID(t *testing.T) {
	w := newWorld(t)
	w.refuse(t, refusal("o-1", ann, record.ReasonHandler), refusal("o-2", ann, record.ReasonHandler), effect())
	for id, body := range map[string]string{"o-2": string(order("o-2", ann).Body), "orders/customer-7/3": "x"} {
		got, err := w.system.DeadLetters(t.Context(), admin.DeadLettersOptions{ID: id, Content: 100})
		if err != nil || len(got) != 1 || got[0].Content == nil {
			t.Fatalf("%s: %+v, %v", id, got, err)
		}
		var want admin.Body
		if want.SetBody([]byte(body)); !cmp.Equal(want, got[0].Content.Body) {
			t.Errorf("%s: content %+v, want %q", id, got[0].Content, body)
		}
	}
}

func TestOneDeadLetterIsPutBackAndAnotherDroppedByTheirIDs(t *testing.T) {
	w := newWorld(t)
	w.refuse(t, refusal("o-1", ann, record.ReasonAttempts), refusal("o-2", ann, record.ReasonAttempts), effect())
	info, err := w.system.Redrive(t.Context(), admin.RedriveOptions{ID: "o-1"})
	if err != nil || info.Redriven != 1 || info.Failed != 0 {
		t.Fatalf("redrive: %+v, %v", info, err)
	}
	if got := w.messages(t, "IngressFifo"); len(got) != 1 || got[0].ID != "o-1" {
		t.Errorf("put back %+v", got)
	}
	for _, id := range []string{"o-2", "orders/customer-7/3"} {
		dropped, err := w.system.Drop(t.Context(), admin.DropOptions{ID: id})
		if err != nil || dropped.Dropped != 1 || len(dropped.Letters) != 1 || dropped.Letters[0].ID != id {
			t.Errorf("drop %s: %+v, %v", id, dropped, err)
		}
	}
	if left, err := w.system.DeadLetters(t.Context(), admin.DeadLettersOptions{}); err != nil || len(left) != 0 {
		t.Errorf("left: %+v, %v", left, err)
	}
}

func TestADropCallsTheFunctionsUntilTheyAreDoneAndSparesLaterLetters(t *testing.T) {
	w := newWorld(t)
	until := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	var asked []tasks.Task
	w.invoke("process", func(payload []byte) any {
		var task tasks.Task
		if err := json.Unmarshal(payload, &task); err != nil {
			return err
		}
		asked = append(asked, task)
		return tasks.Dropped{Dropped: 3, Filter: task.Filter, Until: task.Until, Done: len(asked) == 2}
	})
	info, err := w.system.Drop(t.Context(), admin.DropOptions{Queue: "ingress-dead", Stream: "orders", Reason: "invalid", ID: "o-1", MessageIDs: []string{"m-1"}, Until: until})
	if err != nil || info.Dropped != 6 {
		t.Fatalf("%+v, %v", info, err)
	}
	asks := deadletter.Filter{Stream: "orders", Reason: "invalid", ID: "o-1", MessageIDs: []string{"m-1"}}
	want := tasks.Task{Once: tasks.Drop, Queue: "ingress-dead", Filter: asks, Until: until, By: "iam:arn:aws:sts::000000000000:assumed-role/Operator"}
	if d := cmp.Diff([]tasks.Task{want, want}, asked); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if _, err := w.system.Drop(t.Context(), admin.DropOptions{Queue: "ingress-dead"}); !errors.Is(err, admin.ErrDropAll) || len(asked) != 2 {
		t.Errorf("a drop of everything: %v", err)
	}
}

func TestAnAnswerThatDoesNotConfirmWhichLettersWereAskedForIsAnError(t *testing.T) {
	w := newWorld(t)
	w.invoke("process", func([]byte) any { // as a version that knows no id
		return struct {
			tasks.Redriven
			Dropped int `json:"dropped"`
		}{tasks.Redriven{Redriven: 7, Done: true}, 7}
	})
	var setup *deployed.SetupError
	info, err := w.system.Redrive(t.Context(), admin.RedriveOptions{Queue: "ingress-dead", ID: "o-1"})
	if !errors.As(err, &setup) || info.Redriven != 7 {
		t.Errorf("redrive: %+v, %v", info, err)
	}
	dropped, err := w.system.Drop(t.Context(), admin.DropOptions{Queue: "ingress-dead", ID: "o-1"})
	if !errors.As(err, &setup) || dropped.Dropped != 7 {
		t.Errorf("drop: %+v, %v", dropped, err)
	}
}

func TestASkipIsATaskOfThePublishFunction(t *testing.T) {
	w := newWorld(t)
	var asked []tasks.Task
	w.invoke("publish", func(payload []byte) any {
		var task tasks.Task
		if err := json.Unmarshal(payload, &task); err != nil {
			return err
		}
		asked = append(asked, task)
		if task.Number == 3 {
			return tasks.Skipped{Destinations: []string{"shop"}}
		}
		return tasks.Skipped{Destinations: []string{}}
	})
	info, err := w.system.Skip(t.Context(), admin.SkipOptions{Stream: "orders", Group: "g/1", Number: 3})
	if err != nil || !cmp.Equal(info.Destinations, []string{"shop"}) {
		t.Errorf("%+v, %v", info, err)
	}
	want := tasks.Task{Once: tasks.Skip, Filter: deadletter.Filter{Stream: "orders"}, Group: "g/1", Number: 3}
	if d := cmp.Diff([]tasks.Task{want}, asked); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if _, err := w.system.Skip(t.Context(), admin.SkipOptions{Stream: "orders", Group: "g/1", Number: 4}); !errors.Is(err, admin.ErrNotFound) {
		t.Errorf("an effect that is not pending: %v", err)
	}
}

// TestCopiesOfOneIdentityAreOneLetter has letters that SQS can't merge.
func TestCopiesOfOneIdentityAreOneLetter(t *testing.T) {
	w := newWorld(t)
	reuse := refusal("o-1", ann, record.ReasonKeyReuse)
	reuse.Message.Body = []byte("other")
	for range 3 {
		w.refuse(t, refusal("o-1", ann, record.ReasonAttempts), reuse, effect())
	}
	w.refuse(t, refusal("o-2", ann, record.ReasonAttempts))
	got, err := w.system.DeadLetters(t.Context(), admin.DeadLettersOptions{})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(got, func(a, b admin.DeadLetter) int { return strings.Compare(a.ID, b.ID) })
	want := []admin.DeadLetter{
		{Queue: "ingress-dead", Reason: "attempts", Detail: "as it says", Stream: "orders", ID: "o-1", Group: "customer-7", Count: 6},
		{Queue: "ingress-dead", Reason: "attempts", Detail: "as it says", Stream: "orders", ID: "o-2", Group: "customer-7"},
		{Queue: "publish-dead", Reason: "gone", Detail: "410 Gone", Stream: "orders", ID: "orders/customer-7/3", Group: "customer-7", Destination: "shop", Count: 3},
	}
	if d := cmp.Diff(want, got, cmpopts.IgnoreFields(admin.DeadLetter{}, "Sent", "MessageID", "First", "Copies")); d != "" {
		t.Fatalf("-want +got\n%s", d)
	}
	if n := len(got[0].Copies); n != 5 || got[0].First == nil {
		t.Errorf("%d copies, first at %v", n, got[0].First)
	}
	one, err := w.system.DeadLetters(t.Context(), admin.DeadLettersOptions{ID: "o-1", Limit: 1})
	if err != nil || len(one) != 1 || one[0].Count != 6 {
		t.Errorf("one letter: %+v, %v", one, err)
	}
	info, err := w.system.Redrive(t.Context(), admin.RedriveOptions{Queue: "publish-dead"})
	if sent := w.take(t, "PublishFifo"); err != nil || info.Redriven != 3 || len(sent) != 1 {
		t.Errorf("redrive: %+v, %v; sent %d", info, err, len(sent))
	}
	dropped, err := w.system.Drop(t.Context(), admin.DropOptions{ID: "o-1", MessageIDs: append(one[0].Copies, one[0].MessageID)})
	if err != nil || dropped.Dropped != 6 {
		t.Errorf("drop: %+v, %v", dropped, err)
	}
	if left, err := w.system.DeadLetters(t.Context(), admin.DeadLettersOptions{}); err != nil || len(left) != 1 || left[0].ID != "o-2" {
		t.Errorf("left: %+v, %v", left, err)
	}
}
