package embedded_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

// drain reads and commits the entries of a session until its end, and returns their ids.
func (r *running) drain(t *testing.T, path string) (got []string) {
	t.Helper()
	fence, cursor := r.open(t, path, "test", "free").Fence, uint64(0)
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		page := r.entries(t, path, fence, fmt.Sprint("&wait=1&after=", cursor))
		if page.status != http.StatusOK && page.status != http.StatusNoContent {
			t.Fatal(page.text)
		}
		for _, e := range page.Entries {
			if e.Kind == "message" {
				got = append(got, e.ID)
			}
		}
		to := cursor + uint64(len(page.Entries))
		if a := r.commit(t, path, fence, cursor, to); a.status != http.StatusOK {
			t.Fatal(a.text)
		}
		if cursor = to; page.header.Get("Once-End") == "true" {
			return got
		}
	}
	t.Fatalf("no end after %v", got)
	return nil
}

func TestTheEndOfAStreamIsBehindAllAcceptedMessages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stream string
		header func(i int) []string
	}{
		{"work", func(i int) []string { return []string{"Idempotency-Key", fmt.Sprintf(`"m%d"`, i)} }},
		{"numbers", func(i int) []string { return []string{"Once-Source", "s", "Once-Sequence", fmt.Sprint(i + 1)} }},
	} {
		t.Run(c.stream, func(t *testing.T) {
			t.Parallel()
			p := &place{t: t, dir: t.TempDir(), config: pooled}
			r := p.start()
			defer func() { r.stop() }()
			for i := range 10 {
				if a := r.ask(t, "POST", c.stream+"/messages", "x", c.header(i)...); a.status != http.StatusAccepted {
					t.Fatal(a.text)
				}
			}
			for range 2 {
				if a := r.ask(t, "POST", c.stream+"/end", "", "Idempotency-Key", `"end"`); a.status != http.StatusAccepted {
					t.Fatal(a.text)
				}
			}
			r.stop()
			r = p.start()
			got := r.drain(t, c.stream+"/sessions/ann")
			if slices.Sort(got); len(got) != 10 || len(slices.Compact(got)) != 10 {
				t.Errorf("got %v", got)
			}
			if a := r.ask(t, "POST", c.stream+"/sessions/new", `{"holder":"h"}`); a.status != http.StatusGone || a.problem() != "ended" {
				t.Errorf("a new session: %s", a.text)
			}
			// A message that is before the end was accepted; another one is not any more.
			again := r.ask(t, "POST", c.stream+"/messages", "x", c.header(3)...)
			if c.stream == "work" && again.status != http.StatusAccepted {
				t.Errorf("a repetition: %s", again.text)
			}
			late := r.ask(t, "POST", c.stream+"/messages", "x", c.header(10)...)
			for deadline := time.Now().Add(time.Minute); late.status == http.StatusServiceUnavailable && time.Now().Before(deadline); {
				time.Sleep(10 * time.Millisecond)
				late = r.ask(t, "POST", c.stream+"/messages", "x", c.header(10)...)
			}
			if c.stream == "work" && (late.status != http.StatusConflict || late.problem() != "ended") || late.status == http.StatusAccepted {
				t.Errorf("a message after the end: %d %s", late.status, late.text)
			}
		})
	}
}

func TestOnlyAStreamWithAPoolEnds(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: pooled}
	r := p.start()
	defer r.stop()
	if a := r.ask(t, "POST", "room/end", ""); a.status != http.StatusNotFound || a.problem() != "no-pool" {
		t.Error(a.text)
	}
	if a := r.ask(t, "POST", "nothing/end", ""); a.status != http.StatusNotFound || a.problem() != "unknown-stream" {
		t.Error(a.text)
	}
}
