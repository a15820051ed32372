package publish

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue"
)

// from returns a message of another sender.
func from(sender string, m queue.Message) queue.Message {
	m.Sender = sender
	return m
}

func TestAnEffectForgedByAnotherSenderIsNotSent(t *testing.T) {
	var log bytes.Buffer
	s := &stub{}
	h := newHandler(s, slog.New(slog.NewTextHandler(&log, nil)))
	forged := effect("orders/a/8")
	batch := event(
		from("AIDA:mallory", forged), from("", forged), from("AIDA:once", forged), from("AIDA:mallory", trigger("a")), effect("orders/a/7"),
	)
	if got := failures(t, h, batch); got != "0 1 2" {
		t.Errorf("failures %q", got)
	}
	if d := cmp.Diff([]string{"deliver orders/a/7 to shop", "publish orders/a"}, s.calls); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
	if strings.Contains(log.String(), "orders/a/8") || strings.Count(log.String(), "message is not a trigger") != 3 {
		t.Errorf("log:\n%s", &log)
	}
	if got := failures(t, New(s, Options{}), event(effect("orders/a/7"))); got != "0" {
		t.Errorf("a handler that trusts nobody: failures %q", got)
	}
	if got := failures(t, New(s, Options{Trusted: []string{"AROAPUBLISH"}}), event(from("AROAPUBLISH:session", effect("orders/a/7")))); got != "" {
		t.Errorf("a session of a trusted role: failures %q", got)
	}
}

func TestATriggerForAnUnknownGroupBlocksNoOther(t *testing.T) {
	s := &stub{}
	if got := failures(t, newHandler(s, nil), event(trigger(strings.Repeat("g", 3000)), trigger("a"))); got != "0" {
		t.Errorf("failures %q", got)
	}
	if d := cmp.Diff([]string{"publish orders/a"}, s.calls); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
	longest := strings.Repeat("g", 256)
	if got := failures(t, newHandler(s, nil), event(trigger(longest))); got != "" || s.calls[1] != "publish orders/"+longest {
		t.Errorf("the longest group: failures %q, %v", got, s.calls)
	}
}
