package main

import (
	"net"
	"strings"
	"testing"
	"time"
)

// unused returns an address on which nothing listens.
func unused(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func TestTheErrorForARefusedConnectionIsImmediateAndSaysHowToStartTheServer(t *testing.T) {
	w := newWorld(t)
	address := unused(t)
	begun := time.Now()
	code := w.once(t.Context(), "", "send", "orders", "1", "--url", "http://"+address)
	if want := "nothing listens on http://" + address + "; start it with: once dev --listen " + address; code != exitAway || !strings.Contains(w.err.String(), want) {
		t.Errorf("exit %d: %q, want %q", code, w.err.String(), want)
	}
	if strings.Contains(w.err.String(), "may have been taken") || strings.Contains(w.err.String(), "trying again") {
		t.Errorf("it says %q", w.err.String())
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestSendWaitsForAServerWithTheFlag(t *testing.T) {
	w := newWorld(t)
	code := w.once(t.Context(), "", "send", "orders", "1", "--url", "http://"+unused(t), "--wait-for-server", "--retry-for", "300ms")
	if code != exitAway || !strings.Contains(w.err.String(), "trying again") || strings.Contains(w.err.String(), "may have been taken") {
		t.Errorf("exit %d: %q", code, w.err.String())
	}
}

func TestUsageErrorsNameTheRemedyAndNoGoTypes(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ in, args, want string }{
		{"", "send orders 1 --url 127.0.0.1:8196", "did you mean http://127.0.0.1:8196?"},
		{"", "dev --log-level loud", `--log-level "loud" must be debug, info, warn or error`},
		{"1\n", "send orders --file -", "must be a JSON object"},
		{"[1]\n", "send orders --file -", "must be a JSON object"},
		{"", "completion tcsh", `"tcsh"`},
	} {
		code := w.once(t.Context(), c.in, strings.Fields(c.args)...)
		if text := w.err.String(); code != exitUsage || !strings.Contains(text, c.want) || strings.Contains(text, "Go value") || strings.Contains(text, "slog") {
			t.Errorf("once %s: exit %d, %q, want %q", c.args, code, text, c.want)
		}
	}
}
