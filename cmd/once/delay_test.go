package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestSendDelaysAMessageAndSaysWhenItIsDue(t *testing.T) {
	w := newWorld(t)
	w.front.before = func(rw http.ResponseWriter, r *http.Request) bool {
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusAccepted)
		_, _ = fmt.Fprintf(rw, `{"id":%s,"stream":"orders","group":"g","status":"accepted","not_before":%q}`, r.Header.Get("Idempotency-Key"), r.Header.Get("Once-Not-Before"))
		return true
	}
	for args, due := range map[string]string{
		"send orders 1 --key a --delay 7d": time.Now().Add(7 * 24 * time.Hour).UTC().Format("2006-01-02"), "send orders 1 --key b --not-before 2027-03-04T05:06:07+01:00": "2027-03-04T04:06:07Z",
	} {
		if code := w.once(t.Context(), "", strings.Fields(args)...); code != 0 || !strings.Contains(w.out.String(), "accepted") || !strings.Contains(w.out.String(), "due at "+due) {
			t.Errorf("once %s: exit %d, %q %q, want an accepted message that is due at %s", args, code, w.out.String(), w.err.String(), due)
		}
	}
}

func TestLinesOfAFileMayBeDelayed(t *testing.T) {
	due := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for line, want := range map[string]string{
		`{"body":1}`: "", `{"body":1,"not_before":"2030-01-02T03:04:05Z"}`: due.String(), `{"body":1,"delay":"0s"}`: "",
	} {
		m, err := parseLine("orders", []byte(line))
		if got := m.NotBefore; err != nil || (want == "") != got.IsZero() || want != "" && !got.Equal(due) {
			t.Errorf("%s: due at %v (%v), want %q", line, got, err, want)
		}
	}
	before := time.Now()
	if m, err := parseLine("orders", []byte(`{"body":1,"delay":"1d2h"}`)); err != nil || m.NotBefore.Before(before.Add(26*time.Hour)) || m.NotBefore.After(time.Now().Add(26*time.Hour)) {
		t.Errorf("due at %v (%v), want in 26 hours", m.NotBefore, err)
	}
	for _, line := range []string{`{"body":1,"delay":"soon"}`, `{"body":1,"delay":"366d"}`, `{"body":1,"not_before":"soon"}`, `{"body":1,"delay":"1s","not_before":"2030-01-02T03:04:05Z"}`} {
		if _, err := parseLine("orders", []byte(line)); err == nil {
			t.Errorf("%s: got no error, want one", line)
		}
	}
}
