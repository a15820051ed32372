package main

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/effectively-once/once/internal/testkit/freeport"
)

func TestTheErrorForARefusedConnectionIsImmediateAndSaysHowToStartTheServer(t *testing.T) {
	w := newWorld(t)
	address := freeport.Address(t)
	code := w.once(t.Context(), "", "send", "orders", "1", "--url", "http://"+address)
	if want := "nothing listens on http://" + address + "; start it with: once dev --listen " + address; code != exitAway || !strings.Contains(w.err.String(), want) {
		t.Errorf("exit %d: %q, want %q", code, w.err.String(), want)
	}
	far := freeport.Address(t)
	far = strings.Replace(far, "127.0.0.1", "0.0.0.0", 1) // once dev would refuse it
	if code := w.once(t.Context(), "", "send", "orders", "1", "--url", "http://"+far); code != exitAway || !strings.HasSuffix(w.err.String(), "start it with: once serve\n") {
		t.Errorf("exit %d: %q, want once serve", code, w.err.String())
	}
	if strings.Contains(w.err.String(), "may have been taken") || strings.Contains(w.err.String(), "trying again") {
		t.Errorf("it says %q", w.err.String())
	}
}

func TestSendWaitsForAServerWithTheFlag(t *testing.T) {
	w := newWorld(t)
	synctest.Test(t, func(t *testing.T) {
		code := w.once(t.Context(), "", "send", "orders", "1", "--url", "http://"+freeport.Address(t), "--wait-for-server", "--retry-for", "10m")
		if code != exitAway || !strings.Contains(w.err.String(), "trying again") || strings.Contains(w.err.String(), "may have been taken") {
			t.Errorf("exit %d: %q", code, w.err.String())
		}
	})
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
