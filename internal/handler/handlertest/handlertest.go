// Package handlertest is the suite of the ways to call a handler.
//
// A test makes a program that answers each request with [Answer], whatever the way, and passes its
// caller to [Run].
package handlertest

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/handler"
	"github.com/effectively-once/once/internal/record"
)

// Stream is the stream of all requests, and Destination the destination that it has.
const (
	Stream      = "orders"
	Destination = "mail"
)

// A request is as much of a request as Answer reads.
type request struct {
	Group    string          `json:"group"`
	State    json.RawMessage `json:"state"`
	Messages []struct {
		ID   string          `json:"id"`
		Body json.RawMessage `json:"body"`
	} `json:"messages"`
}

// Answer returns the answer to a request of [Run], by the group of the request. failed is the text
// with which the handler has to fail, in its own words.
func Answer(text []byte) (answer, failed string) {
	var r request
	if err := json.Unmarshal(text, &r); err != nil || len(r.Messages) == 0 {
		return "", "no request"
	}
	for _, c := range cases() {
		if c.name == r.Group {
			return c.answer, c.failed
		}
	}
	return "", "no case " + r.Group
}

// A test is one answer, and its result.
type test struct {
	name   string
	answer string
	failed string // the handler's words
	state  string // before
	want   string // the state after
	err    string // a part of the error
	check  func(t *testing.T, answers []record.Answer)
}

// Run checks what is made of the answers of a handler.
func Run(t *testing.T, caller handler.Caller) {
	t.Helper()
	h := handler.New(caller, handler.Options{Stream: Stream, Destinations: []string{Destination}})
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			b := batch(c.name, c.state)
			err := record.BatchHandler(h.Handle).Run(t.Context(), b)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("the error is %v, want one with %q", err, c.err)
				}
				if _, own := errors.AsType[*handler.FailedError](err); own != (c.failed != "") {
					t.Errorf("the error is in the handler's words: %v, want %v", own, c.failed != "")
				}
				return
			}
			if err != nil {
				t.Fatalf("the error is %v, want none", err)
			}
			if string(b.State) != c.want {
				t.Errorf("the state is %q, want %q", b.State, c.want)
			}
			c.check(t, b.Answers())
		})
	}
}

// batch returns two messages of a group.
func batch(group, state string) *record.Batch {
	b := &record.Batch{ID: "attempt-" + strings.ReplaceAll(group, " ", "-"), Group: record.GroupKey{Stream: Stream, Group: group}, Version: 7, State: []byte(state)}
	for _, id := range []string{"a", "b"} {
		b.Messages = append(b.Messages, record.Message{Stream: Stream, Group: group, ID: id, ContentType: "application/json", Body: []byte(`{"n":1}`), Try: 1})
	}
	return b
}

func cases() []test {
	const ok = `{"messages":[{"id":"a"},{"id":"b"}]}`
	answered := func(n int) func(*testing.T, []record.Answer) {
		return func(t *testing.T, answers []record.Answer) {
			t.Helper()
			if len(answers) != n {
				t.Errorf("%d messages are answered, want %d", len(answers), n)
			}
		}
	}
	return []test{
		{name: "no state leaves it", answer: ok, state: `{"n":1}`, want: `{"n":1}`, check: answered(2)},
		{name: "a state replaces it", answer: `{"state":{"n":2},"messages":[{"id":"a"},{"id":"b"}]}`, state: `{"n":1}`, want: `{"n":2}`, check: answered(2)},
		{name: "a state of null clears it", answer: `{"state":null,"messages":[{"id":"a"},{"id":"b"}]}`, state: `{"n":1}`, check: answered(2)},
		{name: "a shorter list", answer: `{"messages":[{"id":"a"}]}`, check: answered(1)},
		{name: "a reject", answer: `{"messages":[{"id":"a","reject":"no money"},{"id":"b"}]}`, check: func(t *testing.T, answers []record.Answer) {
			t.Helper()
			if answers[0].Reject == nil || answers[0].Reject.Detail != "no money" || answers[1].Attempt == nil {
				t.Errorf("the answers are %+v, want a reject for lack of money, and one that is accepted", answers)
			}
		}},
		{name: "a reply", answer: `{"messages":[{"id":"a","reply":{"status":201,"body":{"ok":true}}}]}`, check: func(t *testing.T, answers []record.Answer) {
			t.Helper()
			if r := answers[0].Attempt.Answer(); r == nil || r.Status != http.StatusCreated || string(r.Body) != `{"ok":true}` {
				t.Errorf("the reply is %+v, want 201 with the body", r)
			}
		}},
		{name: "effects", answer: `{"messages":[{"id":"a","effects":[{"to":"mail","group":"g","body":1},{"to":"mail","content_type":"text/plain","body":"x"}]}]}`, check: func(t *testing.T, answers []record.Answer) {
			t.Helper()
			effects := answers[0].Attempt.Effects()
			if len(effects) != 2 || effects[0].To[0] != Destination || effects[0].Group != "g" || string(effects[0].Body) != "1" || string(effects[1].Body) != "x" {
				t.Errorf("the effects are %+v, want both in their order", effects)
			}
		}},
		{name: "delays and timers", answer: `{"messages":[{"id":"a","effects":[{"to":"mail","after":"1h","body":1},{"timer":"t","after":"2h","body":2},{"cancel":"u"}]}]}`, check: func(t *testing.T, answers []record.Answer) {
			t.Helper()
			a := answers[0].Attempt
			effects := a.Effects()
			if len(effects) != 2 || !effects[0].NotBefore.Equal(a.Now.Add(time.Hour)) || effects[1].Timer != "t" || !effects[1].NotBefore.Equal(a.Now.Add(2*time.Hour)) || string(effects[1].Body) != "2" {
				t.Errorf("the effects are %+v, want one after an hour, and one of a timer after two", effects)
			}
			if timers := a.Timers(); len(timers) != 2 || timers[1].Name != "u" || timers[1].Effect != nil {
				t.Errorf("the timers are %+v, want that the second one is cancelled", timers)
			}
		}},
		{name: "an entry", answer: `{"messages":[{"id":"a","append":[{"body":{"x":1}}]}]}`, check: func(t *testing.T, answers []record.Answer) {
			t.Helper()
			if entries := answers[0].Attempt.Entries(); len(entries) != 1 || string(entries[0].Body) != `{"x":1}` || entries[0].ContentType != "application/json" {
				t.Errorf("the entries are %+v, want one", entries)
			}
		}},
		{name: "an error in its own words", failed: "the stock is closed", err: "the stock is closed"},
		{name: "an empty document", answer: `{}`, err: "must have messages"},
		{name: "an empty list", answer: `{"messages":[]}`, err: "must have at least one result"},
		{name: "an unknown member", answer: `{"messages":[{"id":"a","effect":[]}]}`, err: `messages[0] has the unknown member "effect"`},
		{name: "a wrong id", answer: `{"messages":[{"id":"b"}]}`, err: `messages[0].id must be "a"`},
		{name: "an unknown destination", answer: `{"messages":[{"id":"a","effects":[{"to":"post"}]}]}`, err: `messages[0].effects[0].to is "post", which is no destination of the stream; it has mail`},
		{name: "a large state", answer: `{"state":"` + strings.Repeat("a", record.MaxBatchState) + `","messages":[{"id":"a"}]}`, err: "state of 262146 bytes is larger than 262144"},
		{name: "a large body", answer: `{"messages":[{"id":"a","effects":[{"to":"mail","body":"` + strings.Repeat("a", record.MaxBody) + `"}]}]}`, err: "is larger than 1048576"},
	}
}
