package main

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
)

// unsure are failures after which the client does not know whether a message was accepted: the
// first request is accepted, and its answer hidden.
var unsure = map[string]func(http.ResponseWriter, int){
	"a firewall":   func(w http.ResponseWriter, _ int) { http.Error(w, "no", http.StatusForbidden) },
	"a login page": func(w http.ResponseWriter, _ int) { _, _ = io.WriteString(w, "<html>please log in") },
	"a refusal after a lost answer": func(w http.ResponseWriter, n int) {
		if n == 1 {
			panic(http.ErrAbortHandler)
		}
		refuse(w, http.StatusForbidden, "forbidden")
	},
	"no answer": func(http.ResponseWriter, int) { panic(http.ErrAbortHandler) },
}

// hiding returns a world whose front accepts the first request, and sends the given answer to all
// requests until over is set.
func hiding(t *testing.T, answer func(http.ResponseWriter, int)) (w *world, over *atomic.Bool) {
	t.Helper()
	w, over = newWorld(t), &atomic.Bool{}
	var n atomic.Int32
	w.front.before = func(rw http.ResponseWriter, r *http.Request) bool {
		if over.Load() {
			return false
		}
		n := int(n.Add(1))
		if n == 1 {
			w.front.take(&discard{}, r)
		}
		answer(rw, n)
		return true
	}
	return w, over
}

// discard is a ResponseWriter that drops the answer.
type discard struct{ header http.Header }

func (n *discard) Header() http.Header {
	if n.header == nil {
		n.header = http.Header{}
	}
	return n.header
}
func (n *discard) Write(p []byte) (int, error) { return len(p), nil }
func (n *discard) WriteHeader(int)             {}

var hint = regexp.MustCompile(`\nonce: it may have been accepted; .* repeat the command with --key (\S+)\n$`)

func TestAnAmbiguousSendPrintsTheKeyToRetryWith(t *testing.T) {
	for name, answer := range unsure {
		for _, more := range [][]string{nil, {"--json"}} {
			w, over := hiding(t, answer)
			args := append([]string{"send", "orders", "1", "--retry-for", "200ms"}, more...)
			if code := w.once(t.Context(), "", args...); code != exitAway {
				t.Errorf("%s: exit %d: %s", name, code, w.err.String())
			}
			told := hint.FindStringSubmatch(w.err.String())
			if told == nil {
				t.Errorf("%s: no key in %q", name, w.err.String())
				continue
			}
			over.Store(true)
			if code := w.once(t.Context(), "", append(args, "--key", told[1])...); code != exitOK || len(w.front.taken) != 1 {
				t.Errorf("%s: repeated: exit %d, %d messages: %s", name, code, len(w.front.taken), w.err.String())
			}
		}
	}
}

func TestAnAmbiguousSendWithAKeyOrANumberPrintsNoKey(t *testing.T) {
	for _, own := range []string{"--key k", "--source till --sequence 1"} {
		for name, answer := range unsure {
			w, _ := hiding(t, answer)
			args := append([]string{"send", "orders", "1", "--retry-for", "200ms"}, strings.Fields(own)...)
			if code := w.once(t.Context(), "", args...); code != exitAway || strings.Contains(w.err.String(), "repeat the command") {
				t.Errorf("%s, %s: exit %d: %s", own, name, code, w.err.String())
			}
		}
	}
}

func TestAnImmediateRefusalNamesNoKeyToRetryWith(t *testing.T) {
	w := newWorld(t)
	if code := w.once(t.Context(), "", "send", "orders", "refuse"); code != exitRefused || strings.Contains(w.err.String(), "--key") {
		t.Errorf("exit %d: %s", code, w.err.String())
	}
}

func TestASendWhoseWaitIsOverSaysHowToSeeWhatTheMessageWaitsFor(t *testing.T) {
	w := newWorld(t)
	w.front.before = func(_ http.ResponseWriter, r *http.Request) bool {
		r.Header.Del("Prefer") // the front answers immediately that the message is accepted
		return false
	}
	for command, args := range map[string][]string{
		"once show orders --id 'order 1'": {"--key", "order 1", "--wait", "5s"},
		"once show orders/ann":            {"--source", "ann", "--sequence", "1", "--wait", "5s"},
		"":                                {"--key", "order 2"},
	} {
		if code := w.once(t.Context(), "", append([]string{"send", "orders", "1"}, args...)...); code != exitOK {
			t.Fatalf("exit %d: %s", code, w.err.String())
		}
		want := ""
		if command != "" {
			want = "not done within 5s; to see what it waits for: " + command + "\n"
		}
		if got := w.err.String(); got != want {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
}
