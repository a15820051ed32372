package embedded_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/testkit/eventually"
)

// drain reads and commits the entries of a session until its end, and returns their ids.
func (r *running) drain(t *testing.T, path string) (got []string) {
	t.Helper()
	fence, cursor := r.open(t, path).Fence, uint64(0)
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

// ending has streams that end, with keys and with numbers, without the queue and through it.
const ending = "streams: {" +
	"keys: {pool: {partitions: 3}}, keys-queued: {pool: {partitions: 3}, direct: false}, " +
	"numbers: {admission: sequence, pool: {partitions: 2}}, numbers-queued: {admission: sequence, pool: {partitions: 2}, direct: false}}\n"

// A sender sends the messages 1, 2, 3 … to a stream that ends.
type sender struct {
	stream, name string
}

// header returns the headers of a message, and the id that its entry has.
func (s sender) header(number int) (header []string, id string) {
	if strings.HasPrefix(s.stream, "numbers") {
		return []string{"Once-Source", s.name, "Once-Sequence", fmt.Sprint(number)}, fmt.Sprintf("%s/0/%d", s.name, number)
	}
	id = fmt.Sprint(s.name, "-", number)
	return []string{"Idempotency-Key", `"` + id + `"`}, id
}

// send sends a message until the answer is definite, and reports whether it was accepted.
func (s sender) send(t *testing.T, r *running, number int) (accepted bool) {
	t.Helper()
	header, _ := s.header(number)
	eventually.Succeeds(t, func() error {
		a := r.ask(t, "POST", s.stream+"/messages", "x", header...)
		switch {
		case a.status == http.StatusServiceUnavailable:
			return fmt.Errorf("%s: no answer but 503", header)
		case a.status == http.StatusAccepted:
			accepted = true
		case a.status != http.StatusConflict || a.problem() != "ended":
			t.Errorf("%s: %d %s", header, a.status, a.text)
		}
		return nil
	})
	return accepted
}

func TestAMessageIsBeforeTheEndOfItsStreamIfAndOnlyIfItWasAccepted(t *testing.T) {
	t.Parallel()
	for _, stream := range []string{"keys", "keys-queued", "numbers", "numbers-queued"} {
		t.Run(stream, func(t *testing.T) {
			t.Parallel()
			p := &place{t: t, dir: t.TempDir(), config: ending}
			r := p.start()
			defer func() { r.stop() }()
			var mu sync.Mutex
			var accepted []string
			var sending sync.WaitGroup
			begun := make(chan struct{}, 1000)
			senders := []sender{{stream, "a"}, {stream, "b"}, {stream, "c"}, {stream, "d"}}
			for _, s := range senders {
				sending.Go(func() {
					for number := 1; number < 2000 && s.send(t, r, number); number++ {
						_, id := s.header(number)
						mu.Lock()
						accepted = append(accepted, id)
						mu.Unlock()
						select {
						case begun <- struct{}{}:
						default:
						}
					}
				})
			}
			for range 20 {
				<-begun
			}
			for range 2 {
				if a := r.ask(t, "POST", stream+"/end", "", "Idempotency-Key", `"end"`); a.status != http.StatusAccepted {
					t.Error(a.text)
				}
			}
			sending.Wait()
			if t.Failed() { // without an answer each further message would wait, too
				return
			}
			r.stop()
			r = p.start()
			got := r.drain(t, stream+"/sessions/ann")
			slices.Sort(got)
			slices.Sort(accepted)
			if diff := cmp.Diff(accepted, got); diff != "" {
				t.Errorf("accepted, and in the log:\n%s", diff)
			}
			if a := r.ask(t, "POST", stream+"/sessions/new", `{"holder":"h"}`); a.status != http.StatusGone || a.problem() != "ended" {
				t.Errorf("a new session: %s", a.text)
			}
			for _, s := range senders {
				if !s.send(t, r, 1) || s.send(t, r, len(accepted)+1) {
					t.Error("repetitions after the end have other answers")
				}
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
