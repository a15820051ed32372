package api_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

const request = "/v1/streams/orders/requests/"

func TestAOneTimeRequestIsStoredRunOnceAndForgotten(t *testing.T) {
	for _, stream := range []string{"orders", "payments"} {
		w := newWorld(t)
		at := "/v1/streams/" + stream + "/requests/a%2Fb"
		receipt := `{"id":"a/b","stream":"` + stream + `","group":"g","status":"accepted"}` + "\n"

		want(t, w.send("PUT", at, "reply", "Once-Group: g"), 201, receipt, "Location: "+at, "Idempotent-Replayed: ")
		want(t, w.send("PUT", at, "reply", "Once-Group: g"), 200, receipt, "Location: "+at, "Idempotent-Replayed: true")
		wantProblem(t, w.send("PUT", at, "binary", "Once-Group: g"), problem.KeyReuse)
		want(t, w.send("GET", at, ""), 200, receipt)
		if w.runs.Load() != 0 {
			t.Error("PUT ran the request")
		}

		want(t, w.send("POST", at, ""), 409, "not enough money\x00", "Content-Type: text/plain", "Idempotent-Replayed: false")
		want(t, w.send("POST", at, ""), 409, "not enough money\x00", "Content-Type: text/plain", "Idempotent-Replayed: true")
		want(t, w.send("PUT", at, "reply", "Once-Group: g"), 200, receipt, "Idempotent-Replayed: true")
		wantProblem(t, w.send("PUT", at, "binary", "Once-Group: g"), problem.KeyReuse)
		if got := w.send("GET", at, ""); !strings.Contains(got.body, `"status":"done","reply":{"status":409`) {
			t.Errorf("got %s", got.body)
		}

		want(t, w.send("DELETE", at, ""), 204, "")
		want(t, w.send("DELETE", at, ""), 204, "")
		for _, method := range []string{"GET", "POST"} {
			wantProblem(t, w.send(method, at, ""), problem.Deleted)
		}
		wantProblem(t, w.send("PUT", at, "reply", "Once-Group: g"), problem.Deleted)
		wantProblem(t, w.send("GET", "/v1/streams/"+stream+"/messages/a%2Fb", ""), problem.Deleted)
		wantProblem(t, w.send("POST", "/v1/streams/"+stream+"/messages", "", "Idempotency-Key: a/b"), problem.Deleted)
		if w.runs.Load() != 1 {
			t.Errorf("ran %d times", w.runs.Load())
		}
	}
}

func TestAOneTimeRequestWithoutAReplyIsDone(t *testing.T) {
	w := newWorld(t)
	w.send("PUT", request+"a", "x", "Content-Type: text/plain", "X-GitHub-Event: push")
	done := `{"id":"a","stream":"orders","group":"a","status":"done"}` + "\n"
	want(t, w.send("POST", request+"a", ""), 200, done, "Idempotent-Replayed: false")
	want(t, w.send("POST", request+"a", ""), 200, done, "Idempotent-Replayed: true")
}

func TestAnUnknownOneTimeRequestIsNotFound(t *testing.T) {
	w := newWorld(t)
	w.queue.set(func(q *ingress) { q.paused = true })
	w.send("POST", orders, "x", "Idempotency-Key: message")
	for _, id := range []string{"none", "message"} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			wantProblem(t, w.send(method, request+id, ""), problem.UnknownMessage)
		}
	}
	for _, method := range []string{"GET", "PUT", "POST", "DELETE"} {
		wantProblem(t, w.send(method, "/v1/streams/nothing/requests/a", ""), problem.UnknownStream)
	}
}

func TestAOneTimeRequestThatWasDeletedUnrunNeverRuns(t *testing.T) {
	w := newWorld(t)
	w.send("PUT", request+"a", "reply")
	want(t, w.send("DELETE", request+"a", ""), 204, "")
	wantProblem(t, w.send("POST", request+"a", ""), problem.Deleted)
	if w.runs.Load() != 0 {
		t.Error("it ran")
	}
}

func TestAWrongOneTimeRequestIsRefused(t *testing.T) {
	w := newWorld(t)
	wantProblem(t, w.send("PUT", request+"a", "x", "Once-Source: alice", "Once-Sequence: 1"), problem.InvalidMessage)
	wantProblem(t, w.send("PUT", "/v1/streams/chat/requests/a", "x"), problem.InvalidMessage)
	wantProblem(t, w.send("PUT", request+strings.Repeat("a", record.MaxName+1), "x"), problem.InvalidMessage)
	wantProblem(t, w.send("PUT", request+"%07", "x"), problem.InvalidMessage)
	wantProblem(t, w.send("PUT", request+"a", "x", "Once-Gruop: g"), problem.MalformedRequest)
	wantProblem(t, w.send("PUT", request+"a", "x", "Content-Encoding: br"), problem.UnsupportedMediaType)
	wantProblem(t, w.send("PUT", request+"a", "x", "Test-Principal: intruder"), problem.Forbidden)
	w.send("PUT", request+"a", "x")
	wantProblem(t, w.send("POST", request+"a", "body"), problem.MalformedRequest)
	wantProblem(t, w.send("POST", request+"a", strings.Repeat("x", record.SmallBody+1)), problem.TooLarge)
	if w.runs.Load() != 0 {
		t.Error("it ran")
	}
}

func TestARejectedOneTimeRequestHasTheHandlersReason(t *testing.T) {
	w := newWorld(t)
	w.send("PUT", request+"a", "refuse")
	got := w.send("POST", request+"a", "")
	wantProblem(t, got, problem.Rejected)
	if !strings.Contains(got.body, `"detail":"not a transfer"`) {
		t.Errorf("got %s", got.body)
	}
}

func TestAFailingOneTimeRequestCanBeTriedAgain(t *testing.T) {
	w := newWorld(t)
	w.send("PUT", request+"a", "fail")
	for range 2 {
		wantProblem(t, w.send("POST", request+"a", ""), problem.Unavailable)
	}
	if w.runs.Load() != 2 {
		t.Errorf("ran %d times, want 2", w.runs.Load())
	}
}

func TestManyRunsOfAOneTimeRequestGetTheSameAnswer(t *testing.T) {
	w := newWorld(t)
	w.send("PUT", request+"a", "reply", "Once-Group: g")
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() { want(t, w.send("POST", request+"a", ""), 409, "not enough money\x00") })
	}
	all.Wait()
	want(t, w.send("POST", request+"a", ""), 409, "not enough money\x00", "Idempotent-Replayed: true")
}

func TestADeleteThatRacesARunLeavesNothingStuck(t *testing.T) {
	w := newWorld(t)
	for i, stream := range slices.Repeat([]string{"orders", "payments"}, 15) {
		at := fmt.Sprintf("/v1/streams/%s/requests/r%d", stream, i)
		group := "Once-Group: g"
		if i%3 == 0 {
			group = "X-No: group"
		}
		w.send("PUT", at, "reply", group)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if got := w.send("POST", at, ""); got.status != 409 && got.status != 410 {
					t.Errorf("POST: got %d %s", got.status, got.body)
				}
			})
		}
		all.Go(func() { want(t, w.send("DELETE", at, ""), 204, "") })
		all.Wait()
		wantProblem(t, w.send("POST", at, ""), problem.Deleted)
		groups, _, err := w.store.Load(t.Context(), []record.GroupKey{{Stream: stream, Group: "g"}, {Stream: stream, Group: fmt.Sprintf("r%d", i)}}, nil)
		if err != nil || len(groups[0].Pending)+len(groups[1].Pending) > 0 {
			t.Errorf("left: %+v, %v", groups, err)
		}
	}
}

func TestADeleteSurvivesARunThatMarksItsTokenLate(t *testing.T) {
	for _, c := range []struct{ name, stream, group string }{
		{"without a group record", "orders", "X-No: group"},
		{"with a group record", "payments", "Once-Group: g"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			at := "/v1/streams/" + c.stream + "/requests/a"
			w.send("PUT", at, "reply", c.group)
			remove := func() { want(t, w.send("DELETE", at, ""), 204, "") }
			w.store.beforeMark.Store(&remove)
			if got := w.send("POST", at, ""); got.status != 409 && got.status != 410 {
				t.Errorf("POST: got %d %s", got.status, got.body)
			}
			wantProblem(t, w.send("POST", at, ""), problem.Deleted)
		})
	}
}

// outcomes is an engine whose Call returns an outcome chosen by the test.
type outcomes struct {
	api.Engine
	next record.Outcome
}

func (o *outcomes) Call(context.Context, record.Message) record.Outcome { return o.next }

func TestEveryOutcomeOfARunHasItsAnswer(t *testing.T) {
	var engine *outcomes
	w := newWorld(t, func(w *world, o *api.Options) {
		engine = &outcomes{Engine: w.engine}
		o.Engine = engine
	})
	w.send("PUT", request+"a", "x")
	for _, c := range []struct {
		outcome record.Outcome
		want    problem.Type
	}{
		{record.Outcome{Kind: record.Retry, Err: errAway}, problem.Unavailable},
		{record.Outcome{Kind: record.Retry}, problem.Unavailable},
		{record.Outcome{Kind: record.HeldBack}, problem.Unavailable},
		{record.Outcome{Kind: record.Rejected, Reason: record.ReasonDeleted}, problem.Deleted},
		{record.Outcome{Kind: record.Rejected, Reason: record.ReasonUnknown}, problem.UnknownMessage},
		{record.Outcome{Kind: record.Rejected, Reason: record.ReasonKeyReuse}, problem.KeyReuse},
		{record.Outcome{Kind: record.Rejected, Reason: record.ReasonInvalid, Detail: "internal text"}, problem.Rejected},
		{record.Outcome{Kind: record.Rejected, Reason: record.ReasonHandler, Detail: "no"}, problem.Rejected},
	} {
		engine.next = c.outcome
		wantProblem(t, w.send("POST", request+"a", ""), c.want)
	}
	engine.next = record.Outcome{Kind: record.Duplicate}
	want(t, w.send("POST", request+"a", ""), 200, `{"id":"a","stream":"orders","group":"a","status":"done"}`+"\n", "Idempotent-Replayed: true")
}

func TestAMessageIsNoOneTimeRequest(t *testing.T) {
	w := newWorld(t)
	w.send("POST", orders, "reply", "Idempotency-Key: m", "Once-Group: g", "Prefer: wait=10")
	at := "/v1/streams/orders/requests/m"
	for _, method := range []string{"GET", "POST", "DELETE"} {
		wantProblem(t, w.send(method, at, ""), problem.UnknownMessage)
	}
	want(t, w.send("POST", orders, "reply", "Idempotency-Key: m", "Once-Group: g", "Prefer: wait=10"), 409, "not enough money\x00", "Idempotent-Replayed: true")
}
