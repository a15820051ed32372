package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

func aDuplicateGetsTheAnswerOfTheFirst(t *testing.T, x *sandbox) {
	key := x.name("a")
	send := func(body string) answer {
		return x.must(t, "POST", "/v1/streams/keyed/messages", body, "Idempotency-Key", `"`+key+`"`, "Once-Group", x.name("g"), "Content-Type", "application/json")
	}
	first := send(`{"amount": 100}`)
	if first.status != http.StatusAccepted || first.header.Get("Idempotent-Replayed") != "" || first.header.Get("Location") == "" {
		t.Fatalf("first answer: %+v", first)
	}
	again := send(`{"amount": 100}`)
	x.want(t, "keyed", sent{id: key, group: x.name("g"), body: []byte(`{"amount": 100}`)})
	x.untilDone(t, "keyed", key)
	late := send(`{"amount": 100}`)
	for when, duplicate := range map[string]answer{"soon": again, "late": late} {
		if duplicate.status != first.status || duplicate.body != first.body || duplicate.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("duplicate, %s: %+v; the first was %+v", when, duplicate, first)
		}
	}
	if other := send(`{"amount": 999}`); other.status != http.StatusUnprocessableEntity {
		t.Errorf("another body under the same key: %+v", other)
	}
}

// untilDone requests the status of a message until it has been processed and published.
func (x *sandbox) untilDone(t *testing.T, stream, id string) {
	t.Helper()
	await(t, id+" is done", func() (bool, error) {
		a, err := x.ask(t.Context(), "GET", "/v1/streams/"+stream+"/messages/"+id, "")
		if err == nil && a.status == http.StatusNotFound {
			return false, nil // a message that was sent by SQS has no token before it is done
		}
		if err == nil && a.status != http.StatusOK {
			err = fmt.Errorf("look up: %+v", a)
		}
		return strings.Contains(a.body, `"status":"done"`), err
	})
}

func aWaitingCallerIsToldWhenItIsDone(t *testing.T, x *sandbox) {
	for range 2 {
		// the first time may take longer than a caller can wait
		await(t, "done in time", func() (bool, error) {
			a, err := x.ask(t.Context(), "POST", "/v1/streams/keyed/messages", "now", "Idempotency-Key", `"`+x.name("w")+`"`, "Prefer", "wait=5")
			if err == nil && a.status >= 300 {
				err = fmt.Errorf("answer %+v", a)
			}
			return strings.Contains(a.body, `"status":"done"`), err
		})
	}
	x.want(t, "keyed", sent{id: x.name("w"), body: []byte("now")})
}

func manyAtOnceGetOneAnswer(t *testing.T, x *sandbox) {
	const callers = 8
	answers := make([]answer, callers)
	errs := make([]error, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			answers[i], errs[i] = x.ask(t.Context(), "POST", "/v1/streams/keyed/messages", "one", "Idempotency-Key", `"`+x.name("m")+`"`)
		})
	}
	wg.Wait()
	must(t, errs...)
	fresh := 0
	for _, a := range answers {
		if a.status != http.StatusAccepted || a.body != answers[0].body {
			t.Errorf("answer %+v, and to another %+v", a, answers[0])
		}
		if a.header.Get("Idempotent-Replayed") == "" {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d callers were told that their message is new", fresh)
	}
	x.want(t, "keyed", sent{id: x.name("m"), body: []byte("one")})
}

func whatIsWrongWithARequestIsAProblem(t *testing.T, x *sandbox) {
	for _, c := range []struct {
		path, key string
		status    int
	}{
		{"/v1/streams/keyed/messages", "", http.StatusBadRequest},
		{"/v1/streams/keyed/messages", `""`, http.StatusBadRequest},
		{"/v1/streams/nobody/messages", `"` + x.name("k") + `"`, http.StatusNotFound},
	} {
		var header []string
		if c.key != "" {
			header = []string{"Idempotency-Key", c.key}
		}
		a := x.must(t, "POST", c.path, "x", header...)
		if a.status != c.status || a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s with key %q: %+v", c.path, c.key, a)
		}
	}
	if a := x.must(t, "GET", "/v1/streams/keyed/messages/"+x.name("never"), ""); a.status != http.StatusNotFound {
		t.Errorf("look up of what nobody sent: %+v", a)
	}
}

func aOneTimeRequestIsStoredRunAndForgottenOnce(t *testing.T, x *sandbox) {
	path := "/v1/streams/keyed/requests/" + x.name("r")
	for _, step := range []struct {
		method, body string
		status       int
	}{
		{"POST", "", http.StatusNotFound},
		{"PUT", "pay", http.StatusCreated},
		{"PUT", "pay", http.StatusOK},
		{"PUT", "pay twice", http.StatusUnprocessableEntity},
		{"POST", "", http.StatusOK},
		{"POST", "", http.StatusOK},
		{"DELETE", "", http.StatusNoContent},
		{"DELETE", "", http.StatusNoContent},
		{"POST", "", http.StatusGone},
	} {
		if a := x.must(t, step.method, path, step.body); a.status != step.status {
			t.Errorf("%s %q: %+v, want %d", step.method, step.body, a, step.status)
		}
	}
	x.want(t, "keyed", sent{id: x.name("r"), body: []byte("pay")})
}

// theLargestBodiesHaveAnEffect sends bytes that SQS does not take as text, so that the message is
// larger than SQS takes.
func theLargestBodiesHaveAnEffect(t *testing.T, x *sandbox) {
	body := strings.Repeat("\x00\xff", 512<<10)
	for _, stream := range []string{"keyed", "unordered", "issued"} {
		send := func(key, body string) answer {
			return x.must(t, "POST", "/v1/streams/"+stream+"/messages", body, "Idempotency-Key", `"`+x.name(key)+`"`, "Once-Group", x.name("g"), "Content-Type", "application/octet-stream")
		}
		for range 2 {
			if a := send("largest", body); a.status != http.StatusAccepted {
				t.Fatalf("%s: %+v", stream, a)
			}
		}
		x.want(t, stream, sent{id: x.name("largest"), group: x.name("g"), body: []byte(body)})
		if a := send("larger", body+"x"); a.status != http.StatusRequestEntityTooLarge {
			t.Errorf("%s, a byte more: %+v", stream, a)
		}
	}
	larger := strings.Repeat("x", 256<<10+1)
	if a := x.must(t, "POST", "/v1/streams/numbered/messages", larger, "Once-Source", x.name("s"), "Once-Sequence", "1"); a.status != http.StatusRequestEntityTooLarge {
		t.Errorf("numbered, a byte more: %+v", a)
	}
}
