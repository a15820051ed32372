package infra

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/record"
	lambdas "github.com/effectively-once/once/internal/system/function"
)

// A trouble is a state of a deployment in which an alarm has to be on.
type trouble struct {
	minute  []point       // the metrics of each minute of it, in addition to the usual ones
	without string        // a metric that is missing
	lasts   time.Duration // defaults to 20 minutes
	within  time.Duration // after which the alarm is on; defaults to 6 minutes
}

// aws returns a point of a metric that AWS measures; see measure.
func aws(metric string, value float64) []point {
	return []point{{metric: metric, value: value}}
}

// ordinary returns the metrics of each minute of a deployment in which all is well. The functions
// write their own; those of AWS are zero if AWS sends zeros.
func ordinary(t *testing.T) []point {
	t.Helper()
	ingest := run(t, lambdas.Ingest, fakeAWS{}, nil)
	for path, want := range map[string]int{
		"/v1/streams/orders/messages":  http.StatusAccepted,
		"/v1/streams/made-up/messages": http.StatusNotFound,
	} {
		if status := ingest.post(path, "1"); status != want {
			t.Fatalf("%s: %d", path, status)
		}
	}
	process := run(t, lambdas.Process, fakeAWS{}, func(context.Context, *record.Attempt, record.Message) error { return nil })
	process.deliver("1")
	out := slices.Concat(ingest.metrics(), process.metrics(), observed(t,
		record.Event{Name: record.EventPublished, Stream: "orders", Count: 1},
		record.Event{Name: record.EventPending, Stream: "orders", Age: 2 * time.Second},
		record.Event{Name: record.EventReplayed, Stream: "orders", Count: 1},
		record.Event{Name: record.EventDuplicate, Stream: "orders", Count: 1},
		record.Event{Name: record.EventGap, Stream: "later", Age: time.Second}))
	for _, name := range []string{"Accepted", "Refused", "AcceptTime", "Processed", "Published"} {
		took := name == "AcceptTime" // may be less than a millisecond
		if !slices.ContainsFunc(out, func(p point) bool { return p.metric == "Once "+name && (p.value > 0 || took) }) {
			t.Fatalf("an ordinary minute has no %s: %v", name, out)
		}
	}
	for _, f := range []string{"Ingest", "Process", "Publish"} {
		out = slices.Concat(out, aws("AWS/Lambda Errors FunctionName="+f, 0), aws("AWS/Lambda Throttles FunctionName="+f, 0), aws("AWS/Lambda ConcurrentExecutions FunctionName="+f, 20))
	}
	for _, q := range []string{"Ingress", "IngressFifo", "Publish", "PublishFifo"} {
		out = slices.Concat(out, aws("AWS/SQS ApproximateAgeOfOldestMessage QueueName=Queues"+q, 3), aws("AWS/SQS ApproximateNumberOfMessagesVisible QueueName=Queues"+q+"Dead", 0))
	}
	return slices.Concat(out, aws("AWS/ApiGateway 5xx ApiId=HttpApi", 0), aws("AWS/ApiGateway 4xx ApiId=HttpApi", 1))
}

// troubles returns a trouble for each alarm, by its name.
func troubles(t *testing.T) map[string]trouble {
	t.Helper()
	away := run(t, lambdas.Ingest, fakeAWS{missing: true}, nil)
	if status := away.post("/v1/streams/orders/messages", "1"); status != http.StatusServiceUnavailable {
		t.Fatalf("with a missing table the answer is %d", status)
	}
	failing := run(t, lambdas.Process, fakeAWS{}, func(context.Context, *record.Attempt, record.Message) error { return errors.New("no database") })
	failing.deliver("1")
	ages, visible := "AWS/SQS ApproximateAgeOfOldestMessage QueueName=Queues", "AWS/SQS ApproximateNumberOfMessagesVisible QueueName=Queues"
	one := func(name record.EventName) trouble {
		return trouble{minute: observed(t, record.Event{Name: name, Stream: "orders", Count: 1})}
	}
	rejected := func(reason record.Reason) trouble {
		return trouble{minute: observed(t, record.Event{Name: record.EventRejected, Stream: "orders", Count: 1, Reason: reason})}
	}
	waits := func(name record.EventName) trouble {
		return trouble{minute: observed(t, record.Event{Name: name, Stream: "orders", Age: 16 * time.Minute})}
	}
	out := map[string]trouble{
		"IngestFailing":  {minute: away.metrics(), within: 2 * time.Minute},
		"HandlerFailing": {minute: failing.metrics(), within: 2 * time.Minute},
		"Retrying":       {minute: failing.metrics(), within: 15 * time.Minute},
		"IngestSlow":     {minute: observed(t, record.Event{Name: record.EventAccepted, Stream: "orders", Count: 1, Age: 4 * time.Second})},
		"ApiErrors":      {minute: aws("AWS/ApiGateway 5xx ApiId=HttpApi", 1)},
		"Pending":        waits(record.EventPending),
		"Gap":            waits(record.EventGap),
		"KeyReuse":       rejected(record.ReasonKeyReuse),
		"Unknown":        rejected(record.ReasonUnknown),
		"Skipped":        one(record.EventSkipped),
		"DeadLettered":   {minute: observed(t, record.Event{Name: "dead-lettered", Stream: "orders", Count: 1})},
		"SessionStopped": one(record.EventStopped),
		"Takeover":       {minute: observed(t, record.Event{Name: record.EventTakeover, Stream: "orders", Count: 2})},
		"EndWaits":       one(record.EventEndWaits),
		"UnreadLate":     {minute: one(record.EventUnreadLate).minute, lasts: 2 * time.Hour, within: time.Hour},

		"Dead":            {minute: aws(visible+"IngressDead", 1)},
		"DeadFifo":        {minute: aws(visible+"IngressFifoDead", 1)},
		"DeadPublish":     {minute: aws(visible+"PublishDead", 1)},
		"DeadPublishFifo": {minute: aws(visible+"PublishFifoDead", 1)},
		"IngressAge":      {minute: aws(ages+"Ingress", 901)},
		"IngressFifoAge":  {minute: aws(ages+"IngressFifo", 901)},
		"PublishAge":      {minute: aws(ages+"Publish", 1801)},
		"PublishFifoAge":  {minute: aws(ages+"PublishFifo", 901)},

		"TablesThrottled": {minute: aws("AWS/DynamoDB WriteThrottleEvents GlobalSecondaryIndexName=waiting TableName=TablesGroups", 3)},
		"GroupsErrors":    {minute: aws("AWS/DynamoDB SystemErrors Operation=TransactWriteItems TableName=TablesGroups", 1), within: 10 * time.Minute},
		"TokensErrors":    {minute: aws("AWS/DynamoDB SystemErrors Operation=UpdateItem TableName=TablesTokens", 1), within: 10 * time.Minute},

		"SweepMissed":    {minute: aws("AWS/Events FailedInvocations RuleName=Sweep", 1)},
		"SweepAllMissed": {minute: aws("AWS/Events FailedInvocations RuleName=SweepAll", 1)},
		"SweepSilent":    {without: "AWS/Events Invocations RuleName=Sweep", within: 4 * time.Minute},
		"SweepAllSilent": {without: "AWS/Events Invocations RuleName=SweepAll", lasts: 5 * time.Hour, within: 4 * time.Hour},
	}
	for f, limit := range map[string]float64{"Ingest": 1000, "Process": 100, "Publish": 100} {
		out[f+"Errors"] = trouble{minute: aws("AWS/Lambda Errors FunctionName="+f, 1)}
		out[f+"Throttles"] = trouble{minute: aws("AWS/Lambda Throttles FunctionName="+f, 1)}
		out[f+"Busy"] = trouble{minute: aws("AWS/Lambda ConcurrentExecutions FunctionName="+f, limit*0.8)}
	}
	return out
}

// quiet is how long nothing happens before and after a trouble.
const quiet = 5 * time.Hour

// history returns the points of a deployment from begin on: quiet, then a trouble, then quiet
// again.
func history(usual []point, begin time.Time, x *trouble) (out []point) {
	end := begin.Add(2*quiet + x.lasts)
	for now := begin; now.Before(end); now = now.Add(time.Minute) {
		troubled := !now.Before(begin.Add(quiet)) && now.Before(begin.Add(quiet+x.lasts))
		minute := slices.Concat(usual, aws("AWS/Events Invocations RuleName=Sweep", 1))
		if now.Minute() == 17 {
			minute = slices.Concat(minute, aws("AWS/Events Invocations RuleName=SweepAll", 1))
		}
		if troubled {
			minute = slices.Concat(minute, x.minute)
		}
		for _, p := range minute {
			if troubled && p.metric == x.without {
				continue
			}
			p.at = now.Add(20 * time.Second)
			out = append(out, p)
		}
	}
	return out
}

func TestEveryAlarmIsOnInItsTroubleAndOffInAQuietHour(t *testing.T) {
	usual, cases := ordinary(t), troubles(t)
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	calm := history(usual, begin, &trouble{})
	for _, a := range synth(t).alarms(t) {
		x, known := cases[a.name]
		if !known {
			t.Errorf("%s has no trouble in this test", a.name)
			continue
		}
		delete(cases, a.name)
		orElse(&x.lasts, 20*time.Minute)
		orElse(&x.within, 6*time.Minute)
		// The first sweep of all groups is an hour after the deployment.
		if on := a.firing(calm, begin.Add(2*time.Hour), begin.Add(2*quiet)); len(on) > 0 {
			t.Errorf("%s is on though all is well, at %s", a.name, on[0])
		}
		on := a.firing(history(usual, begin, &x), begin.Add(2*time.Hour), begin.Add(2*quiet+x.lasts))
		trouble := begin.Add(quiet)
		switch {
		case len(on) == 0:
			t.Errorf("%s is never on", a.name)
		case on[0].Before(trouble) || on[0].After(trouble.Add(x.within)):
			t.Errorf("%s is on at %s, want within %s of %s", a.name, on[0], x.within, trouble)
		case on[len(on)-1].After(trouble.Add(x.lasts + a.period*time.Duration(a.periods))):
			t.Errorf("%s is still on at %s, though the trouble has ended at %s", a.name, on[len(on)-1], trouble.Add(x.lasts))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Errorf("there is no alarm %s", name)
	}
}

func TestTheQueueOfEachSourceHasAnAlarm(t *testing.T) {
	begin, found, pages := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), 0, paragraphs(t)
	for _, a := range sourced(t).alarms(t) {
		source, ok := strings.CutPrefix(a.metrics[0], "AWS/SQS ApproximateAgeOfOldestMessage QueueName=Sources")
		if !ok {
			continue
		}
		found++
		x := trouble{minute: aws(a.metrics[0], 901), lasts: 20 * time.Minute}
		if on := a.firing(history(nil, begin, &x), begin, begin.Add(2*quiet)); len(on) == 0 {
			t.Errorf("%s is never on though messages wait in the queue of %s", a.name, source)
		}
	}
	if found != 7 || !strings.Contains(pages["ingressage"], "source") {
		t.Errorf("%d alarms, want one for each source, and a word about them in the paragraph", found)
	}
}

func TestAlarmsFollowTheirSettings(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	on := func(context []string, name string, minute []point) bool {
		for _, a := range synth(t, context...).alarms(t) {
			if a.name == name {
				x := trouble{minute: minute, lasts: 20 * time.Minute}
				return len(a.firing(history(nil, begin, &x), begin.Add(quiet), begin.Add(2*quiet))) > 0
			}
		}
		t.Fatalf("%v: no alarm %s", context, name)
		return false
	}
	hour, reserved, rest := []string{"alarmMinutes=60"}, []string{"reservedConcurrency=200"}, []string{"api=rest"}
	for _, c := range []struct {
		context []string
		name    string
		minute  []point
		want    bool
	}{
		{hour, "Pending", observed(t, record.Event{Name: record.EventPending, Stream: "orders", Age: 59 * time.Minute}), false},
		{hour, "Pending", observed(t, record.Event{Name: record.EventPending, Stream: "orders", Age: time.Hour}), true},
		{reserved, "IngestBusy", aws("AWS/Lambda ConcurrentExecutions FunctionName=Ingest", 159), false},
		{reserved, "IngestBusy", aws("AWS/Lambda ConcurrentExecutions FunctionName=Ingest", 160), true},
		{[]string{"accountConcurrency=10"}, "ProcessBusy", aws("AWS/Lambda ConcurrentExecutions FunctionName=Process", 8), true},
		{rest, "ApiErrors", aws("AWS/ApiGateway 5XXError ApiName=Once-Pipeline", 1), true},
	} {
		if got := on(c.context, c.name, c.minute); got != c.want {
			t.Errorf("%v: %s is on: %v, with %v", c.context, c.name, got, fmt.Sprint(c.minute))
		}
	}
}
