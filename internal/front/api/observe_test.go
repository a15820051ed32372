package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/record"
)

// observer counts the events of the HTTP API, as "NAME STREAM".
type observer struct {
	mu     sync.Mutex
	counts map[string]int
	age    time.Duration
}

func (o *observer) observe(e record.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.counts == nil {
		o.counts = map[string]int{}
	}
	o.counts[fmt.Sprintf("%s %s", e.Name, e.Stream)] += e.Count
	o.age = max(o.age, e.Age)
}

// take returns the counts since the last call.
func (o *observer) take() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	counts := o.counts
	o.counts = nil
	return counts
}

func TestEachMessageAndEachFailedRequestIsReportedOnce(t *testing.T) {
	seen := &observer{}
	w := newWorld(t, func(_ *world, o *api.Options) {
		o.Observe, o.System = seen.observe, "here"
		o.Principal = func(r *http.Request) (string, error) {
			if r.Header.Get("Idempotency-Key") == "panic" {
				panic("nil map")
			}
			return "", nil
		}
	})
	send := func(method, path, key, body string, header ...string) {
		r, err := http.NewRequestWithContext(t.Context(), method, w.server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := response.Body.Close(); err != nil {
			t.Error(err)
		}
	}
	const orders = "/v1/streams/orders/messages"
	records := `{"key":"b1","body":1}` + "\n" + `{"key":"b1","body":1}` + "\n" + `{"key":"b2","body":2}` + "\n" + `{"body":3}` + "\n"
	for name, c := range map[string]struct {
		do   func()
		want map[string]int
	}{
		"a new message":            {func() { send("POST", orders, "1", "x") }, map[string]int{"accepted orders": 1}},
		"a repetition":             {func() { send("POST", orders, "r", "x"); send("POST", orders, "r", "x") }, map[string]int{"accepted orders": 1, "replayed orders": 1}},
		"key reuse":                {func() { send("POST", orders, "k", "x"); send("POST", orders, "k", "y") }, map[string]int{"accepted orders": 1, "refused orders": 1}},
		"no key":                   {func() { send("POST", orders, "", "x") }, map[string]int{"refused orders": 1}},
		"a batch":                  {func() { send("POST", "/v1/streams/orders/batch", "", records, "Content-Type", "application/x-ndjson") }, map[string]int{"accepted orders": 2, "replayed orders": 1, "refused orders": 1}},
		"a broken batch":           {func() { send("POST", "/v1/streams/orders/batch", "", "", "Content-Type", "text/plain") }, map[string]int{"refused orders": 1}},
		"a stream that is made up": {func() { send("POST", "/v1/streams/made-up/messages", "1", "x") }, map[string]int{"refused ": 1}},
		"no route":                 {func() { send("GET", "/v2//", "", "") }, map[string]int{"refused ": 1}},
		"a look at a message":      {func() { send("POST", orders, "look", "x"); send("GET", orders+"/look", "", "") }, map[string]int{"accepted orders": 1}},
		"a panic":                  {func() { send("POST", orders, "panic", "x") }, map[string]int{"failed orders": 1}},
		"a loop":                   {func() { send("POST", orders, "loop", "x", "Once-Via", "there, here") }, map[string]int{"refused orders": 1}},
		"a handler's own reply":    {func() { send("POST", orders, "own", "reply", "Prefer", "wait=5") }, map[string]int{"accepted orders": 1}},
		"a refusal by the handler": {func() { send("POST", orders, "ref", "refuse", "Prefer", "wait=5") }, map[string]int{"accepted orders": 1, "refused orders": 1}},
		"a store that is away": {func() {
			w.store.away.Store(true)
			defer w.store.away.Store(false)
			send("POST", orders, "away", "x")
			send("POST", "/v1/streams/orders/batch", "", `{"key":"away","body":1}`+"\n", "Content-Type", "application/x-ndjson")
		}, map[string]int{"failed orders": 2}},
		"a queue that is away": {func() {
			w.queue.set(func(q *ingress) { q.err = errAway })
			defer w.queue.set(func(q *ingress) { q.err = nil })
			send("POST", "/v1/streams/chat/messages", "", "x", "Once-Source", "s", "Once-Sequence", "1")
		}, map[string]int{"failed chat": 1}},
	} {
		c.do()
		if diff := cmp.Diff(c.want, seen.take()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTheTimeToAcceptAMessageDoesNotIncludeWaitingForItsHandler(t *testing.T) {
	seen, clock := &observer{}, newSteps(time.Second)
	w := newWorld(t, func(w *world, o *api.Options) {
		o.Observe, o.Now = seen.observe, clock
		w.queue.set(func(q *ingress) { q.paused = true })
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.server.URL+"/v1/streams/orders/messages", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Idempotency-Key", "1")
	r.Header.Set("Prefer", "wait=1")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
	if seen.take(); seen.age != time.Second {
		t.Errorf("accepting took %s, want one step of the clock", seen.age)
	}
}

// newSteps returns a clock that advances by one step with each look.
func newSteps(step time.Duration) func() time.Time {
	var mu sync.Mutex
	now := time.Unix(1_700_000_000, 0)
	return func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(step)
		return now
	}
}
