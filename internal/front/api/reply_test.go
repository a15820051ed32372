package api_test

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"testing"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

func TestADoneAnswerSaysWhetherItIsAReplay(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		body   string
		status int
	}{{"reply", 409}, {"binary", 201}, {"sneaky", 200}, {"pass on", 202}, {"nothing", 200}} {
		w.send("PUT", request+url.PathEscape(c.body), c.body)
		for _, replayed := range []string{"false", "true"} {
			for _, got := range []response{
				w.send("POST", request+url.PathEscape(c.body), ""),
				w.send("POST", orders, c.body, `Idempotency-Key: "message-`+c.body+`"`, "Prefer: wait=10"),
			} {
				if mark := got.header.Values("Idempotent-Replayed"); got.status != c.status || len(mark) != 1 || mark[0] != replayed {
					t.Errorf("%s: %d with %q, want %q", c.body, got.status, mark, replayed)
				}
			}
		}
	}
}

// A handler's reply may have any form, also that of an answer of this server or of a proxy.
func TestAHandlersReplyAndNothingElseIsMarkedAsOne(t *testing.T) {
	w := newWorld(t)
	number := 0
	for _, c := range []struct {
		body   string
		status int
		marked bool
	}{
		{"reply", 409, true},
		{"binary", 201, true},
		{"sneaky", 200, true},
		{"pass on", 202, true},
		{"nothing", 200, false},
		{"refuse", 400, false},
		{"nonsense", 500, false},
	} {
		w.send("PUT", request+url.PathEscape(c.body), c.body)
		key, wait := `Idempotency-Key: "message-`+c.body+`"`, "Prefer: wait=10"
		if got := w.send("POST", orders, c.body, key).header.Values("Once-Reply"); len(got) != 0 {
			t.Errorf("%s, not awaited: %q", c.body, got)
		}
		answers := []response{
			w.send("POST", request+url.PathEscape(c.body), ""), w.send("POST", request+url.PathEscape(c.body), ""),
			w.send("POST", orders, c.body, key, wait), w.send("POST", orders, c.body, key, wait),
		}
		// the answer to a numbered message is that it waits for its predecessors
		if c.body != "refuse" {
			number++
			for range 2 {
				answers = append(answers, w.send("POST", chat, c.body, "Once-Source: alice", "Once-Sequence: "+strconv.Itoa(number), wait))
			}
		}
		for i, got := range answers {
			mark := got.header.Values("Once-Reply")
			if got.status != c.status || len(mark) == 0 == c.marked || c.marked && (len(mark) != 1 || mark[0] != "true") {
				t.Errorf("%s, answer %d: %d with %q", c.body, i, got.status, mark)
			}
		}
	}
}

func TestAReceiptOfAMessageThatIsNotDoneIsNotMarkedAsAReply(t *testing.T) {
	w := newWorld(t, func(_ *world, o *api.Options) {
		o.Await = func(context.Context, record.Message) (admission.State, error) {
			return admission.State{}, context.DeadlineExceeded
		}
	})
	w.queue.set(func(q *ingress) { q.paused = true })
	for range 2 {
		want(t, w.send("POST", orders, "x", "Idempotency-Key: a", "Prefer: wait=1"), 202, `{"id":"a","stream":"orders","group":"a","status":"accepted"}`+"\n", "Once-Reply: ")
	}
}

// A problem that is no answer is the current state; a refusal is the answer of its key.
func TestOnlyARefusalInPlaceOfAReplyIsMarkedAsAReplay(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		body string
		want problem.Type
	}{{"nonsense", problem.Internal}, {"refuse", problem.Rejected}, {"fail", problem.Unavailable}} {
		w.send("PUT", request+c.body, c.body)
		for n := range 2 {
			replayed := map[bool][]string{true: {strconv.FormatBool(n > 0)}}[c.body == "refuse"]
			answers := []response{w.send("POST", request+c.body, "")}
			if c.body != "fail" { // it is still accepted when the wait ends
				answers = append(answers, w.send("POST", orders, c.body, "Idempotency-Key: message-"+c.body, "Prefer: wait=10"))
			}
			for _, got := range answers {
				wantProblem(t, got, c.want)
				if mark := append(got.header.Values("Idempotent-Replayed"), got.header.Values("Once-Reply")...); !slices.Equal(mark, replayed) {
					t.Errorf("%s: %q, want %q", c.body, mark, replayed)
				}
			}
		}
	}
}

// A numbered message has no token that could record whether it was sent before.
func TestTheReplyToANumberedMessageDoesNotSayWhetherItIsAReplay(t *testing.T) {
	w := newWorld(t)
	for range 2 {
		want(t, w.send("POST", chat, "reply", "Once-Source: alice", "Once-Sequence: 1", "Prefer: wait=10"), 409, "not enough money\x00", "Idempotent-Replayed: ")
	}
}
