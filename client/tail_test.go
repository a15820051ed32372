package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/clock"
	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/record"
)

// entries answers with entries of a log, as the server encodes them.
func entries(end bool, list ...record.Entry) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		g := record.Group{Key: record.GroupKey{Stream: "room", Group: "lobby"}, Incarnation: 7}
		var body []byte
		last := uint64(0)
		for _, c := range log.Chunks(&g, list) {
			encoded, err := log.Split(c, 0)
			if err != nil {
				panic(err)
			}
			for _, x := range encoded {
				body, last = x.AppendCBOR(body, 7, "ann"), x.Number
			}
		}
		w.Header().Set("Content-Type", "application/cbor-seq")
		w.Header().Set("Once-Next", log.Offset{Incarnation: 7, Number: last}.String())
		if end {
			w.Header().Set("Once-End", "true")
		}
		_, _ = w.Write(body)
	}
}

func numbered(from, to uint64) (list []record.Entry) {
	for n := from; n <= to; n++ {
		list = append(list, record.Entry{Number: n, Kind: record.EntryMessage, ID: fmt.Sprint(n), Time: clock.Hybrid(n)})
	}
	return list
}

// truncated answers with all of a handler's answer but its last byte.
func truncated(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		next(cutting{w}, r)
	}
}

type cutting struct{ http.ResponseWriter }

func (c cutting) Write(b []byte) (int, error) { return c.ResponseWriter.Write(b[:len(b)-1]) }

func readAll(t *testing.T, tail *client.Tail, n int) (numbers []uint64) {
	t.Helper()
	for range n {
		e, err := tail.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if e.Offset != tail.Offset() {
			t.Errorf("the tail is at %s after %s", tail.Offset(), e.Offset)
		}
		numbers = append(numbers, e.Number)
	}
	return numbers
}

func TestATailReadsEachEntryOnceWhateverFailsBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newClient(t, client.Options{},
			problem(503, "unavailable", "Retry-After", "1"), entries(false, numbered(1, 2)...), cut, plain(502, "bad gateway"), problem(429, "rate-limited", "Retry-After", "2"),
			entries(false), entries(false, numbered(3, 5)...), problem(500, "internal"), entries(true, numbered(6, 6)...))
		tail := c.Tail("room", "lobby", client.TailOptions{Max: 3, Wait: 5 * time.Second})
		if diff := cmp.Diff([]uint64{1, 2, 3, 4, 5, 6}, readAll(t, tail, 6)); diff != "" {
			t.Error(diff)
		}
		for range 2 {
			if _, err := tail.Next(t.Context()); !errors.Is(err, client.ErrEnd) {
				t.Errorf("after the end: %v", err)
			}
		}
		if got := s.last.URL.RequestURI(); got != "/v1/streams/room/groups/lobby/log?after=0000000000007_0000000000000005&max=3&wait=5" {
			t.Error(got)
		}
	})
}

func TestATailReturnsEveryFieldOfAnEntry(t *testing.T) {
	at := clock.HybridAt(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	c, s := newClient(t, client.Options{}, entries(false, record.Entry{
		Number: 1, Kind: record.EntryGap, ID: "i", RedeliveryOf: "k", Principal: "ann", Source: "s", Epoch: 300, Sequence: 70_000, From: 1, To: 1 << 40, Parents: []uint64{3, 500},
		ParentsMissing: true, Late: true, Time: at, ContentType: "application/json", Headers: map[string]string{"A": "1"}, Body: []byte("{ \"a\": 1 }\n"),
	}))
	got, err := c.Tail("room", "a/b", client.TailOptions{}).Next(t.Context())
	want := client.Entry{
		Group: "a/b", Number: 1, Offset: "0000000000007_0000000000000001", Kind: "gap", ID: "i", RedeliveryOf: "k", Principal: "ann", Source: "s", Epoch: 300, Sequence: 70_000, From: 1, To: 1 << 40,
		Parents: []uint64{3, 500}, ParentsMissing: true, Late: true, Time: at, ContentType: "application/json", Headers: map[string]string{"A": "1"}, Body: []byte("{ \"a\": 1 }\n"),
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if got := s.last.URL.EscapedPath(); got != "/v1/streams/room/groups/a%2Fb/log" {
		t.Error(got)
	}
}

func TestATailFromNowKeepsThePositionThatItWasToldFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, s := newClient(t, client.Options{}, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.RawQuery {
			case "after=now&max=1000": // without a wait, which could fail
				entries(false)(w, r)
			case "after=0000000000007_0000000000000000&max=1000&wait=20":
				entries(false, numbered(1, 1)...)(w, r)
			default:
				t.Error(r.URL)
			}
		})
		if got := readAll(t, c.Tail("room", "lobby", client.TailOptions{After: client.FromNow}), 1); got[0] != 1 || len(s.tries) != 2 {
			t.Error(got, s.tries)
		}
	})
}

func TestATailThatDoesNotFollowEndsAtTheEndOfTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := newClient(t, client.Options{}, entries(false, numbered(1, 2)...), entries(false))
		tail := c.Tail("room", "lobby", client.TailOptions{NoFollow: true})
		readAll(t, tail, 2)
		if _, err := tail.Next(t.Context()); !errors.Is(err, client.ErrEnd) {
			t.Error(err)
		}
	})
}

func TestATailReportsExpiredEntriesWithThePlaceToContinue(t *testing.T) {
	c, s := newClient(t, client.Options{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusGone)
		_, _ = io.WriteString(w, `{"type":"https://github.com/effectively-once/once/blob/main/docs/http.md#expired","title":"x","status":410,"first":17,"next":"0000000000007_0000000000000016"}`)
	})
	_, err := c.Tail("room", "lobby", client.TailOptions{}).Next(t.Context())
	var expired *client.ExpiredError
	if !errors.As(err, &expired) || expired.First != 17 || expired.Next != "0000000000007_0000000000000016" || !errors.Is(err, client.Expired) {
		t.Errorf("%v", err)
	}
	if len(s.tries) != 1 {
		t.Errorf("asked %d times", len(s.tries))
	}
}

func TestATailDoesNotRetryWhatCannotBecomeRight(t *testing.T) {
	for _, step := range []http.HandlerFunc{
		problem(409, "ahead"), problem(404, "no-log"), problem(404, "unknown-stream"), plain(200, "<html>", "Content-Type", "text/html"),
		truncated(entries(false, numbered(1, 2)...)),
	} {
		c, s := newClient(t, client.Options{}, step)
		var p *client.Problem
		if e, err := c.Tail("room", "lobby", client.TailOptions{}).Next(t.Context()); !errors.As(err, &p) || len(s.tries) != 1 {
			t.Errorf("%+v %v after %d tries", e, err, len(s.tries))
		}
	}
}

func TestATailGoesOnAfterItsContextEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ok := false
		c, _ := newClient(t, client.Options{}, func(w http.ResponseWriter, r *http.Request) {
			if ok {
				entries(false, numbered(1, 1)...)(w, r)
				return
			}
			panic(errCut)
		})
		tail := c.Tail("room", "lobby", client.TailOptions{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := tail.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		ok = true
		if got := readAll(t, tail, 1); got[0] != 1 {
			t.Error(got)
		}
	})
}

// FuzzEntries sends a tail any body. It is read as entries with consecutive numbers, or refused.
func FuzzEntries(f *testing.F) {
	f.Add([]byte("\xa3dtimex\x1d2026-01-02T03:04:05.000Z-0003fnumber\x01foffseta1"), "1")
	f.Add([]byte("\xa3fnumber\x01foffseta1exx\x81\xc0\xf9\x00\x00"), "1")
	f.Fuzz(func(t *testing.T, body []byte, next string) {
		c, _ := newClient(t, client.Options{MaxElapsed: time.Nanosecond}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/cbor-seq")
			w.Header().Set("Once-Next", next)
			_, _ = w.Write(body)
		})
		tail := c.Tail("room", "lobby", client.TailOptions{NoFollow: true})
		last := uint64(0)
		for {
			e, err := tail.Next(t.Context())
			if err != nil {
				return
			}
			if last != 0 && e.Number != last+1 || e.Offset == "" {
				t.Fatalf("entry %d follows %d", e.Number, last)
			}
			if last = e.Number; e.Offset == next {
				return
			}
		}
	})
}
