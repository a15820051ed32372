package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/front/api"
)

func named(_ *world, o *api.Options) { o.System = "eu" }

func TestAMessageThatComesBackIsALoopThatNamesItsWay(t *testing.T) {
	w := newWorld(t, named)
	for via, status := range map[string]int{"us": 202, "us, ap": 202, "us, eu, ap": 508, "eu": 508, "": 400, "a b": 400, "us, ": 400, strings.Repeat("a, ", 16) + "a": 400} {
		got := w.send("POST", "/v1/streams/orders/messages", "", `Idempotency-Key: "k `+via+`"`, "Once-Via: "+via)
		if got.status != status {
			t.Errorf("%q: %d %s", via, got.status, got.body)
		}
		if status == http.StatusLoopDetected && !strings.Contains(strings.ReplaceAll(got.body, `\u003e`, ">"), strings.ReplaceAll(via, ", ", " -> ")+" -> eu") {
			t.Errorf("%q: %s", via, got.body)
		}
	}
	if got := newWorld(t).send("POST", "/v1/streams/orders/messages", "", "Idempotency-Key: k", "Once-Via: eu"); got.status != 202 {
		t.Errorf("a system without a name answers %d", got.status)
	}
}

func TestALineThatComesBackIsALoopAndTheOthersAreAccepted(t *testing.T) {
	w := newWorld(t, named)
	got := w.send("POST", "/v1/streams/chat/batch", strings.Join([]string{
		`{"source":"us/eu/room/g","group":"g","sequence":1,"via":["us"]}`,
		`{"source":"us/eu/room/g","group":"g","sequence":2,"via":["eu","us"]}`,
		`{"source":"us/eu/room/g","group":"g","sequence":2,"via":["us"],"void":true}`,
		`{"source":"us/eu/room/g","group":"g","sequence":3,"via":["us"],"void":true,"body":1}`,
		`{"key":"k","via":["us"],"void":true}`,
	}, "\n"), "Content-Type: application/x-ndjson")
	var statuses []string
	for line := range strings.Lines(got.body) {
		statuses = append(statuses, line[len(`{"status":`):len(`{"status":`)+3])
	}
	if text := strings.Join(statuses, " "); text != "202 508 202 400 400" {
		t.Errorf("%s: %s", text, got.body)
	}
}

func TestAVoidMessageIsSettledByAStreamWithoutNumbers(t *testing.T) {
	w := newWorld(t)
	before := w.runs.Load()
	got := w.send("POST", "/v1/streams/orders/batch", `{"key":"k","source":"p","sequence":1,"void":true}`, "Content-Type: application/x-ndjson")
	if got.status != 200 || !strings.Contains(got.body, `{"status":202,"id":"k"`) || w.runs.Load() != before {
		t.Errorf("%d %s", got.status, got.body)
	}
}
