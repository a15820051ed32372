package api_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/effectively-once/once/clock"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

// want checks status, body and some headers ("Name: value"; "Name: " for none) of an answer.
func want(t *testing.T, got response, status int, body string, headers ...string) {
	t.Helper()
	if got.status != status || got.body != body {
		t.Errorf("got %d %q\nwant %d %q", got.status, got.body, status, body)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if actual := strings.Join(got.header[http.CanonicalHeaderKey(name)], " | "); actual != value {
			t.Errorf("%s: got %q, want %q", name, actual, value)
		}
	}
}

func TestAMessageIsAccepted(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		name, path, headers, body, location string
	}{
		{"under a key", orders, "Idempotency-Key: a", `{"id":"a","stream":"orders","group":"a","status":"accepted"}`, orders + "/a"},
		{"under a key in quotes", orders, `Idempotency-Key: "b \"c\", d"`, `{"id":"b \"c\", d","stream":"orders","group":"b \"c\", d","status":"accepted"}`, orders + "/b%20%22c%22%2C%20d"},
		{"under a key with parameters", orders, `Idempotency-Key: "p";v=1`, `{"id":"p","stream":"orders","group":"p","status":"accepted"}`, orders + "/p"},
		{"under a key with slashes", orders, "Idempotency-Key: a/b//c", `{"id":"a/b//c","stream":"orders","group":"a/b//c","status":"accepted"}`, orders + "/a%2Fb%2F%2Fc"},
		{"under a key of dots", orders, "Idempotency-Key: ..", `{"id":"..","stream":"orders","group":"..","status":"accepted"}`, orders + "/%2E%2E"},
		{"in a group", orders, "Idempotency-Key: g1\nOnce-Group: städte/köln", `{"id":"g1","stream":"orders","group":"städte/köln","status":"accepted"}`, orders + "/g1"},
		{"with a token", payments, "Idempotency-Key: t", `{"id":"t","stream":"payments","group":"t","status":"accepted"}`, payments + "/t"},
		{"with a number", chat, "Once-Source: al/ice\nOnce-Sequence: 1", `{"id":"al/ice/0/1","stream":"chat","group":"al/ice","status":"accepted"}`, chat + "/al%2Fice%2F0%2F1?group=al%2Fice"},
		{
			"with everything", chat, "Idempotency-Key: k\nOnce-Source: bob\nOnce-Epoch: 7\nOnce-Sequence: 1\nOnce-Group: a&b\nOnce-Depends-On: carol=3",
			`{"id":"k","stream":"chat","group":"a\u0026b","status":"accepted"}`, chat + "/bob%2F7%2F1?group=a%26b",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := w.send("POST", c.path, "x", strings.Split(c.headers, "\n")...)
			want(t, got, 202, c.body+"\n", "Location: "+c.location, "Content-Type: application/json", "Idempotent-Replayed: ", "Preference-Applied: ")
			w.settled()
			found := w.send("GET", got.header.Get("Location"), "")
			if found.status != 200 {
				t.Errorf("not found at its location: %d %s", found.status, found.body)
			}
		})
	}
}

func TestAllFieldsOfTheSenderReachTheQueue(t *testing.T) {
	w := newWorld(t)
	before := time.Now()
	w.send("POST", chat, "\x00body", "Test-Principal: acme", "Idempotency-Key: k", "Once-Source: bob", "Once-Epoch: 7", "Once-Sequence: 9", "Once-Group: g",
		"Once-Depends-On: carol=3, dave=4", "Once-Parents: 17,23", "Once-Time: 2026-01-31T12:00:00.000Z-0003", "Content-Type: text/plain; charset=utf-8",
		"X-GitHub-Event: push", "X-Twice: a", "X-Twice: b", "traceparent: 00-1-2-01", "tracestate: v=1",
		"X-Forwarded-For: 10.0.0.1", "X-Real-IP: 10.0.0.1", "X-Amz-Date: now", "X-Amzn-Trace-Id: r", "X-Api-Key: secret", "X-Auth-User: root", "X-Gitlab-Token: secret",
		"Authorization: secret", "Cookie: secret", "Accept: */*")
	got := w.queue.message()
	wanted := record.Message{
		Principal: "acme", Stream: "chat", ID: "k", Group: "g", Source: "bob", Epoch: 7, Sequence: 9, DependsOn: map[string]uint64{"carol": 3, "dave": 4},
		Parents: []uint64{17, 23}, Seen: clock.HybridAt(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)) + 3,
		ContentType: "text/plain; charset=utf-8", Body: []byte("\x00body"),
		Headers: map[string]string{"X-Github-Event": "push", "X-Twice": "a, b", "Traceparent": "00-1-2-01", "Tracestate": "v=1"},
	}
	if diff := cmp.Diff(wanted, got, cmpopts.IgnoreFields(record.Message{}, "Accepted")); diff != "" {
		t.Error(diff)
	}
	if got.Accepted.Before(before) || got.Accepted.After(time.Now()) {
		t.Errorf("accepted at %v", got.Accepted)
	}
}

func TestATimeFarAheadIsRefusedBeforeTheMessageIsQueued(t *testing.T) {
	w := newWorld(t)
	ahead := clock.HybridAt(time.Now().Add(time.Hour)).String()
	got := w.send("POST", chat, "", "Once-Source: bob", "Once-Sequence: 1", "Once-Time: "+ahead)
	if got.status != 400 || !strings.Contains(got.body, ahead) || !strings.Contains(got.body, "the time here is") || len(w.queue.names()) != 0 {
		t.Errorf("%d %s", got.status, got.body)
	}
	for _, header := range []string{"Once-Time: noon", "Once-Parents: 1,,2", "Once-Parents: 0", "Once-Parents: " + strings.Repeat("1,", 100) + "1"} {
		if got := w.send("POST", chat, "", "Once-Source: bob", "Once-Sequence: 1", header); got.status != 400 {
			t.Errorf("%s: %d %s", header, got.status, got.body)
		}
	}
}

func TestAMessagesOwnHeaderReplacesTheRequestHeaderOfThatName(t *testing.T) {
	w := newWorld(t)
	for i := range 20 { // the order in which a map is read is random
		w.send("POST", orders, "", "Idempotency-Key: "+strconv.Itoa(i), "X-Event: of the proxy", "Once-Header-X-Event: of the message",
			"Traceparent: 00-1-2-01", "Once-Header-Traceparent: 00-3-4-01")
		wanted := map[string]string{"X-Event": "of the message", "Traceparent": "00-3-4-01"}
		if diff := cmp.Diff(wanted, w.queue.message().Headers); diff != "" {
			t.Fatalf("message %d: %s", i, diff)
		}
	}
}

func TestADuplicateGetsTheSameAnswer(t *testing.T) {
	for _, path := range []string{orders, payments} {
		w := newWorld(t)
		w.queue.set(func(q *ingress) { q.paused = true })
		first := w.send("POST", path, "x", "Idempotency-Key: a")
		waiting := w.send("POST", path, "x", `Idempotency-Key: "a"`)
		w.queue.set(func(q *ingress) { q.paused = false })
		w.send("POST", path, "x", "Idempotency-Key: a", "Prefer: wait=10")
		taken := w.queue.taken.Load()
		done := w.send("POST", path, "x", "Idempotency-Key: a")
		for _, again := range []response{waiting, done} {
			want(t, again, 202, first.body, "Idempotent-Replayed: true", "Location: "+first.header.Get("Location"))
		}
		if w.queue.taken.Load() != taken || w.runs.Load() != 1 {
			t.Errorf("%s: a message that is done was enqueued, or ran %d times", path, w.runs.Load())
		}
	}
}

func TestANumberedDuplicateGetsTheSameAnswer(t *testing.T) {
	w := newWorld(t)
	first := w.send("POST", chat, "x", "Once-Source: alice", "Once-Sequence: 1")
	w.settled()
	want(t, w.send("POST", chat, "x", "Once-Source: alice", "Once-Sequence: 1"), 202, first.body, "Location: "+first.header.Get("Location"))
	w.settled()
	if w.runs.Load() != 1 {
		t.Errorf("ran %d times", w.runs.Load())
	}
}

func TestPrincipalsDoNotShareKeys(t *testing.T) {
	w := newWorld(t)
	first := w.send("POST", orders, "reply", "Idempotency-Key: a", "Test-Principal: acme", "Prefer: wait=10")
	want(t, first, 409, "not enough money\x00", "Idempotent-Replayed: false")
	want(t, w.send("POST", orders, "other", "Idempotency-Key: a", "Test-Principal: evil", "Prefer: wait=10"), 200,
		`{"id":"a","stream":"orders","group":"a","status":"done"}`+"\n", "Idempotent-Replayed: false")
	wantProblem(t, w.send("GET", orders+"/a", "", "Test-Principal: nobody"), problem.UnknownMessage)
}

func TestConcurrentDuplicatesGetTheSameAnswerAndOneIsApplied(t *testing.T) {
	w := newWorld(t)
	const callers = 100
	answers := make([]response, callers)
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			answers[i] = w.send("POST", payments, "reply", "Idempotency-Key: a", "Prefer: wait=30")
		})
	}
	all.Wait()
	fresh := 0
	for _, a := range answers {
		want(t, a, 409, "not enough money\x00")
		if a.header.Get("Idempotent-Replayed") == "false" {
			fresh++
		}
	}
	if applied := w.applied("payments", "a"); fresh != 1 || applied != 1 {
		t.Errorf("%d first answers and %d applied, want 1 and 1", fresh, applied)
	}
}

func TestAStatusRequestReturnsTheStateOfAMessage(t *testing.T) {
	w := newWorld(t)
	look := func(at string) string {
		t.Helper()
		got := w.send("GET", at, "")
		if got.status != 200 || got.header.Get("Cache-Control") != "no-store" {
			t.Errorf("got %d %s %v", got.status, got.body, got.header)
		}
		return strings.TrimSuffix(got.body, "\n")
	}
	w.queue.set(func(q *ingress) { q.paused = true })
	w.send("POST", orders, "x", "Idempotency-Key: waits", "Once-Group: g")
	w.queue.set(func(q *ingress) { q.paused = false })
	for key, body := range map[string]string{"silent": "x", "text": "reply", "bytes": "binary", "no": "refuse"} {
		w.send("POST", orders, body, "Idempotency-Key: "+key)
	}
	early := w.send("POST", chat, "x", "Once-Source: alice", "Once-Sequence: 2", "Once-Group: room")
	w.settled()
	for at, wanted := range map[string]string{
		orders + "/waits":              `{"id":"waits","stream":"orders","group":"g","status":"accepted"}`,
		orders + "/silent":             `{"id":"silent","stream":"orders","group":"silent","status":"done"}`,
		orders + "/bytes":              `{"id":"bytes","stream":"orders","group":"bytes","status":"done","reply":{"status":201,"body_base64":"/wA="}}`,
		orders + "/no":                 `{"id":"no","stream":"orders","group":"no","status":"rejected","reason":"rejected","detail":"not a transfer"}`,
		early.header.Get("Location"):   `{"id":"alice/0/2","stream":"chat","group":"room","status":"held"}`,
		chat + "/alice/0/2?group=room": `{"id":"alice/0/2","stream":"chat","group":"room","status":"held"}`,
	} {
		if got := look(at); got != wanted {
			t.Errorf("%s: got %s, want %s", at, got, wanted)
		}
	}
	var found struct{ Reply struct{ Body string } }
	if err := json.Unmarshal([]byte(look(orders+"/text")), &found); err != nil || found.Reply.Body != "not enough money\x00" {
		t.Errorf("reply %q, %v", found.Reply.Body, err)
	}
	if got := w.send("HEAD", orders+"/silent", ""); got.status != 200 || got.body != "" {
		t.Errorf("HEAD: got %d %q", got.status, got.body)
	}
}

func TestAMessageNamedByItsNumberOnAStreamOfKeysCanBeLookedUp(t *testing.T) {
	w := newWorld(t)
	got := w.send("POST", orders, "x", "Once-Source: till", "Once-Epoch: 2", "Once-Sequence: 7")
	want(t, got, 202, `{"id":"till/2/7","stream":"orders","group":"till","status":"accepted"}`+"\n", "Location: "+orders+"/till%2F2%2F7")
	w.settled()
	want(t, w.send("GET", got.header.Get("Location"), ""), 200, `{"id":"till/2/7","stream":"orders","group":"till","status":"done"}`+"\n")
}
