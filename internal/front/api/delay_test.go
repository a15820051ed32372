package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/delay"
	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/record"
)

// due returns when the message in the answer is due.
func due(t *testing.T, got response) time.Time {
	t.Helper()
	var receipt struct {
		Status    string    `json:"status"`
		NotBefore time.Time `json:"not_before"`
	}
	if err := json.Unmarshal([]byte(got.body), &receipt); err != nil || got.status != http.StatusAccepted || receipt.Status != "accepted" {
		t.Fatalf("answer %d %q (%v), want a receipt of an accepted message", got.status, got.body, err)
	}
	return receipt.NotBefore
}

func TestADelayedMessageIsAcceptedWithTheTimeWhenItIsDue(t *testing.T) {
	w := newWorld(t)
	w.queue.set(func(q *ingress) { q.paused = true })
	before := time.Now()
	got := due(t, w.send("POST", orders, `{}`, "Idempotency-Key: a", "Once-Delay: 1d2h"))
	if got.Before(before.Add(26*time.Hour)) || got.After(time.Now().Add(26*time.Hour)) || !w.queue.message().NotBefore.Equal(got) {
		t.Errorf("due at %v, the queue got %v; want 26 hours after the request, and the same", got, w.queue.message().NotBefore)
	}
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	got = due(t, w.send("POST", orders, `{}`, "Idempotency-Key: b", "Once-Not-Before: "+at.In(time.FixedZone("", 3600)).Format(time.RFC3339)))
	if !got.Equal(at) || !w.queue.message().NotBefore.Equal(at) {
		t.Errorf("due at %v, the queue got %v; want %v", got, w.queue.message().NotBefore, at)
	}
	if w.runs.Load() != 0 {
		t.Errorf("the handler ran %d times, want none", w.runs.Load())
	}
	if got := w.send("GET", orders+"/a", ""); got.status != http.StatusOK || !strings.Contains(got.body, `"status":"accepted"`) {
		t.Errorf("the look-up of a waiting message is %d %q, want status accepted", got.status, got.body)
	}
}

func TestADelayThatIsOverIsNoDelay(t *testing.T) {
	w := newWorld(t)
	for i, header := range []string{"Once-Delay: 0s", "Once-Not-Before: 2020-01-01T00:00:00Z", "Once-Not-Before: 0001-01-01T00:00:00Z"} {
		if got := due(t, w.send("POST", orders, `{}`, fmt.Sprint("Idempotency-Key: ", i), header)); !got.IsZero() {
			t.Errorf("%s: due at %v, want no delay", header, got)
		}
	}
	w.settled()
	if w.runs.Load() != 3 {
		t.Errorf("the handler ran %d times, want 3", w.runs.Load())
	}
}

func TestADelayThatIsNotPossibleIsRefusedWithItsReason(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		name, method, path, reason string
		headers                    []string
	}{
		{"no duration", "POST", orders, "30s", []string{"Once-Delay: soon"}},
		{"negative", "POST", orders, "30s", []string{"Once-Delay: -1s"}},
		{"too long", "POST", orders, "365d", []string{"Once-Delay: 366d"}},
		{"empty", "POST", orders, "once", []string{"Once-Delay: "}},
		{"no time", "POST", orders, "RFC 3339", []string{"Once-Not-Before: tomorrow"}},
		{"too far ahead", "POST", orders, "365 days", []string{"Once-Not-Before: " + time.Now().Add(366*24*time.Hour).Format(time.RFC3339)}},
		{"both", "POST", orders, "not both", []string{"Once-Delay: 1s", "Once-Not-Before: 2026-01-01T00:00:00Z"}},
		{"twice", "POST", orders, "once", []string{"Once-Delay: 1s", "Once-Delay: 1s"}},
		{"a caller that waits", "POST", orders, "wait", []string{"Once-Delay: 1s", "Prefer: wait=5"}},
		{"numbered", "POST", "/v1/streams/chat/messages", "numbered", []string{"Once-Delay: 1s", "Once-Source: a", "Once-Sequence: 1"}},
		{"one-time request", "PUT", "/v1/streams/orders/requests/r", "one-time", []string{"Once-Delay: 1s"}},
	} {
		got := w.send(c.method, c.path, `{}`, append(c.headers, "Idempotency-Key: k")...)
		if got.status != http.StatusBadRequest || !strings.Contains(got.body, c.reason) {
			t.Errorf("%s: the answer is %d %q, want 400 with %q", c.name, got.status, got.body, c.reason)
		}
	}
	if w.queue.taken.Load() != 0 {
		t.Errorf("%d messages are on the queue, want none", w.queue.taken.Load())
	}
}

func TestAStreamWithAPoolTakesNoDelayedMessage(t *testing.T) {
	w := newSessionWorld(t)
	got := w.send("POST", "/v1/streams/work/messages", `{}`, "Idempotency-Key: k", "Once-Delay: 1s")
	if got.status != http.StatusBadRequest || !strings.Contains(got.body, "pool") {
		t.Errorf("the answer is %d %q, want 400 and that the stream has a pool", got.status, got.body)
	}
}

func TestMessagesOfABatchAreDelayedEachForItself(t *testing.T) {
	w := newWorld(t)
	w.queue.set(func(q *ingress) { q.paused = true })
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	w.wantResults(w.send("POST", ordersBatch, lines(
		`{"key":"later","delay":"15m"}`, `{"key":"now"}`, `{"key":"at","not_before":"`+at.Format(time.RFC3339)+`"}`,
		`{"key":"both","delay":"1s","not_before":"2026-01-01T00:00:00Z"}`, `{"key":"bad","delay":"soon"}`, `{"key":"bad","not_before":"soon"}`, `{"key":"wrong","delay":5}`, `{"key":"far","delay":"366d"}`,
	), ndjson), "202 later", "202 now", "202 at", "400 malformed-request", "400 malformed-request", "400 malformed-request", "400 malformed-request", "400 malformed-request")
	if got := fmt.Sprint(w.queue.names()); got != "[later at now]" && got != "[later now at]" {
		t.Errorf("the queue got %s, want later, at and now", got)
	}
	w.wantResults(w.send("POST", chatBatch, lines(`{"source":"a","sequence":1,"delay":"1s"}`), ndjson), "400 invalid-message")
}

// runner processes every message without the queue.
type runner struct{ begun []string }

func (r *runner) Begin(_ context.Context, _ record.Stream, m *record.Message) (api.Try, bool) {
	r.begun = append(r.begun, m.ID)
	return try{}, true
}

func (r *runner) BeginAll(_ context.Context, _ record.Stream, messages []record.Message) api.Tries {
	for i := range messages {
		r.begun = append(r.begun, messages[i].ID)
	}
	return nil
}

type try struct{}

func (try) Process(context.Context) (admission.State, bool, bool, error) {
	return admission.State{Status: admission.StatusDone}, false, true, nil
}
func (try) Enqueue(context.Context) error { return nil }
func (try) End()                          {}

func TestADelayedMessageIsNotProcessedWithoutTheQueue(t *testing.T) {
	r := &runner{}
	w := newWorld(t, func(_ *world, o *api.Options) { o.Direct = r })
	w.queue.set(func(q *ingress) { q.paused = true })
	w.send("POST", orders, `{}`, "Idempotency-Key: later", "Once-Delay: 1m")
	w.send("POST", orders, `{}`, "Idempotency-Key: now")
	w.wantResults(w.send("POST", ordersBatch, lines(`{"key":"x"}`, `{"key":"y","delay":"1m"}`), ndjson), "202 x", "202 y")
	if got := fmt.Sprint(r.begun); got != "[now x]" {
		t.Errorf("processed without the queue: %s, want now and x only", got)
	}
}

func TestAMessageThatIsTooLargeToWaitIsTooLarge(t *testing.T) {
	w := newWorld(t)
	w.queue.set(func(q *ingress) { q.err = fmt.Errorf("put: %w", delay.ErrTooLarge) })
	got := w.send("POST", orders, `{}`, "Idempotency-Key: k", "Once-Delay: 1h")
	if got.status != http.StatusRequestEntityTooLarge || !strings.Contains(got.body, "358400") {
		t.Errorf("the answer is %d %q, want 413 with the limit", got.status, got.body)
	}
}

func TestAnIssuedTokenOutlivesTheDelay(t *testing.T) {
	w := newWorld(t)
	w.queue.set(func(q *ingress) { q.paused = true })
	at := due(t, w.send("POST", payments, `{}`, "Idempotency-Key: p", "Once-Delay: 300d"))
	m := record.Message{Stream: "payments", ID: "p"}
	_, tokens, err := w.store.Load(t.Context(), nil, []record.TokenKey{(&admission.Arrival{Message: m}).Token()})
	if err != nil || tokens[0].State != record.Issued || !tokens[0].Expires.Equal(at.Add(record.IssuedRetention)) {
		t.Errorf("the token is %+v (%v), want an issued one that expires %v after %v", tokens, err, record.IssuedRetention, at)
	}
	// a copy without a delay does not shorten it
	w.send("POST", payments, `{}`, "Idempotency-Key: p")
	_, tokens, err = w.store.Load(t.Context(), nil, []record.TokenKey{(&admission.Arrival{Message: m}).Token()})
	if err != nil || !tokens[0].Expires.Equal(at.Add(record.IssuedRetention)) {
		t.Errorf("after a copy without a delay the token is %+v (%v), want that it expires as before", tokens, err)
	}
}
