package api_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/record"
)

func TestTheInstanceOfEveryProblemIsInALineOfTheLogThatNamesTheMessage(t *testing.T) {
	w := newWorld(t, func(w *world, o *api.Options) {
		o.Log = slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	instance := func(r response) string {
		var p struct{ Instance string }
		if err := json.Unmarshal([]byte(r.body), &p); err != nil || p.Instance == "" {
			t.Fatalf("no problem: %s", r.body)
		}
		return "instance=" + p.Instance + " "
	}
	line := func(part string) string {
		for line := range strings.Lines(w.log.String()) {
			if strings.Contains(line, part) {
				return line
			}
		}
		t.Errorf("no line has %s:\n%s", part, w.log.String())
		return ""
	}
	m := record.Message{Stream: "orders", ID: "secretkey"}
	hash := "hash=" + m.Hash()

	w.send("POST", orders, "one", "Idempotency-Key: secretkey")
	w.settled()
	reused := line(instance(w.send("POST", orders, "two", "Idempotency-Key: secretkey")))
	if !strings.Contains(reused, hash) || !strings.Contains(reused, "level=DEBUG") || !strings.Contains(reused, "key-reuse") {
		t.Errorf("of a refusal: %s", reused)
	}
	unknown := line(instance(w.send("GET", "/v1/streams/nowhere/messages/a", "")))
	if !strings.Contains(unknown, "unknown-stream") {
		t.Errorf("of an unknown stream: %s", unknown)
	}
	w.store.away.Store(true)
	away := line(instance(w.send("POST", orders, "one", "Idempotency-Key: secretkey")))
	if !strings.Contains(away, hash) || !strings.Contains(away, "level=ERROR") {
		t.Errorf("of a fault: %s", away)
	}
	if strings.Contains(w.log.String(), "secretkey") {
		t.Errorf("the log has a key: %s", w.log.String())
	}
}
