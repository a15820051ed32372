package log_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/record"
)

// A world is an engine on a store in memory, with a clock that the test moves.
type world struct {
	t      *testing.T
	now    time.Time
	store  *memstore.Store
	engine *dedup.Engine
}

type noQueues struct{}

func (noQueues) Trigger(context.Context, []record.GroupKey, time.Duration) error { return nil }
func (noQueues) Return(context.Context, []record.Message) error                  { return nil }
func (noQueues) DeadLetter(context.Context, []record.Refused) error              { return nil }
func (noQueues) Delay(context.Context, []record.Delayed) error                   { return nil }

func newWorld(t *testing.T, s record.Stream) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	w.store = memstore.New(func() time.Time { return w.now })
	if s.Handler == nil {
		s.Handler = func(context.Context, *record.Attempt, record.Message) error { return nil }
	}
	var err error
	w.engine, err = dedup.New(dedup.Config{Streams: []record.Stream{s}, Store: w.store, Queues: noQueues{}, Now: func() time.Time { return w.now }})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) send(messages ...record.Message) {
	w.t.Helper()
	for i, out := range w.engine.Process(w.t.Context(), messages) {
		if out.Kind == record.Retry || out.Kind == record.Rejected {
			w.t.Fatalf("message %d: %+v", i, out)
		}
	}
}

var room = record.GroupKey{Stream: "chat", Group: "room"}

func said(id string) record.Message {
	return record.Message{Stream: "chat", ID: id, Group: "room", Principal: "ann", ContentType: "text/plain", Body: []byte("body of " + id)}
}

func (w *world) read(after log.Offset, limit int) (log.Page, error) {
	w.t.Helper()
	return log.Read(w.t.Context(), w.store, room, after, limit)
}

// ids reads a log page by page, and returns the ids with their numbers.
func (w *world) ids(limit int) string {
	w.t.Helper()
	var out []string
	var at log.Offset
	for {
		page, err := w.read(at, limit)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range page.Entries {
			var x struct {
				ID     string
				Number uint64
			}
			if err := cbor.Unmarshal(e.AppendCBOR(nil, page.Next.Incarnation, ""), &x); err != nil {
				w.t.Fatal(err)
			}
			out = append(out, fmt.Sprintf("%d:%s", x.Number, x.ID))
		}
		at = page.Next
		if len(page.Entries) < limit {
			return strings.Join(out, " ")
		}
	}
}

func TestALogHasEachProcessedMessageOnceInTheOrderOfTheCommits(t *testing.T) {
	w := newWorld(t, record.Stream{Name: "chat", LogRetention: time.Hour, LogMessages: true})
	w.send(said("a"), said("b"), said("a"))
	w.send(said("b"), said("c"))
	for _, limit := range []int{1, 2, 3, 100} {
		if got := w.ids(limit); got != "1:a 2:b 3:c" {
			t.Errorf("pages of %d: %s", limit, got)
		}
	}
}

func TestAnEntryShowsItsPrincipalToItselfOnly(t *testing.T) {
	w := newWorld(t, record.Stream{Name: "chat", LogRetention: time.Hour, LogMessages: true})
	w.send(said("a"))
	page, err := w.read(log.Offset{}, 10)
	if err != nil || len(page.Entries) != 1 {
		t.Fatal(page, err)
	}
	for reader, want := range map[string]any{"ann": "ann", "bob": nil, "": nil} {
		var fields map[string]any
		if err := cbor.Unmarshal(page.Entries[0].AppendCBOR(nil, 7, reader), &fields); err != nil {
			t.Fatal(err)
		}
		if fields["principal"] != want || string(fields["body"].([]byte)) != "body of a" || fields["offset"] != "0000000000007_0000000000000001" {
			t.Errorf("%q reads %v", reader, fields)
		}
	}
}

func TestExpiredEntriesAreNeverPassedOverSilently(t *testing.T) {
	w := newWorld(t, record.Stream{Name: "chat", LogRetention: time.Hour, LogMessages: true})
	w.send(said("a"))
	first, err := w.read(log.Offset{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(30 * time.Minute)
	w.send(said("b"), said("c"))
	w.now = w.now.Add(45 * time.Minute)
	w.send(said("d"))
	beginning := log.Offset{Incarnation: first.Next.Incarnation}
	var expired *log.ExpiredError
	if _, err := w.read(beginning, 10); !errors.As(err, &expired) || expired.First.Number != 1 {
		t.Errorf("the first entry has expired: %v", err)
	}
	if got := w.ids(10); got != "2:b 3:c 4:d" {
		t.Errorf("without a position, a reader begins with what is kept: %s", got)
	}
	if page, err := w.read(first.Next, 10); err != nil || len(page.Entries) != 3 {
		t.Errorf("a reader after the expired entry misses nothing: %v %v", page, err)
	}
	if _, err := w.read(log.Offset{Incarnation: beginning.Incarnation, Number: 5}, 10); !errors.As(err, new(*log.AheadError)) {
		t.Errorf("after the end: %v", err)
	}
}

func TestALogThatBeganAgainIsNotContinued(t *testing.T) {
	w := newWorld(t, record.Stream{Name: "chat", LogRetention: time.Hour, LogMessages: true, GroupRetention: time.Hour})
	w.send(said("a"))
	page, err := w.read(log.Offset{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(2 * time.Hour)
	if _, err := w.read(page.Next, 1); !errors.As(err, new(*log.ExpiredError)) {
		t.Errorf("the record is gone: %v", err)
	}
	w.send(said("b"))
	var expired *log.ExpiredError
	if _, err := w.read(page.Next, 1); !errors.As(err, &expired) || !expired.Again || expired.First.Number != 0 {
		t.Errorf("the log began again: %v", err)
	}
}

func TestALargeCommitIsSplitIntoChunksThatBelongTogether(t *testing.T) {
	w := newWorld(t, record.Stream{Name: "chat", LogRetention: time.Hour, Handler: func(_ context.Context, a *record.Attempt, m record.Message) error {
		for i := range 40 {
			a.Append(record.Entry{ContentType: "text/plain", Body: []byte(strings.Repeat(m.ID, 10_000+i))})
		}
		return nil
	}})
	w.send(said("a"), said("b"), said("c"))
	chunks, err := w.store.ReadLog(t.Context(), record.LogRange{Group: room, Incarnation: 1767323045000, Last: 120, MaxBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	next := uint64(1)
	for _, c := range chunks {
		if c.First != next || c.Last < c.First || len(c.Data) > record.MaxChunk+11_000 {
			t.Errorf("chunk %d to %d of %d bytes follows %d", c.First, c.Last, len(c.Data), next-1)
		}
		next = c.Last + 1
	}
	if next != 121 || len(chunks) < 18 {
		t.Errorf("%d entries in %d chunks", next-1, len(chunks))
	}
}

func TestOnlyTheTextOfAnOffsetIsRead(t *testing.T) {
	o := log.Offset{Incarnation: 1767323045000, Number: 17}
	if got, err := log.ParseOffset(o.String()); err != nil || got != o || o.String() != "1767323045000_0000000000000017" {
		t.Errorf("%v %v %s", got, err, o)
	}
	for _, text := range []string{"17", "1_2", "1767323045000_17", "x_0000000000000017", "1767323045000_0000000000000017 "} {
		if o, err := log.ParseOffset(text); err == nil {
			t.Errorf("%q is %v", text, o)
		}
	}
}

func TestAHandlerThatAppendsWithoutALogOrTooMuchFails(t *testing.T) {
	appends := func(e record.Entry, n int) record.Handler {
		return func(_ context.Context, a *record.Attempt, _ record.Message) error {
			for range n {
				a.Append(e)
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		stream record.Stream
		want   string
	}{
		"no log":   {record.Stream{Handler: appends(record.Entry{}, 1)}, "configure log.retain"},
		"too much": {record.Stream{LogRetention: time.Hour, Handler: appends(record.Entry{Body: make([]byte, record.SmallBody)}, 4)}, "more than 1048576"},
		"no text":  {record.Stream{LogRetention: time.Hour, Handler: appends(record.Entry{ContentType: "\xff"}, 1)}, "UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			c.stream.Name = "chat"
			w := newWorld(t, c.stream)
			out := w.engine.Process(t.Context(), []record.Message{said("a")})[0]
			if out.Kind != record.Retry || !strings.Contains(fmt.Sprint(out.Err), c.want) {
				t.Errorf("%+v", out)
			}
		})
	}
}

func TestSkippedNumbersAreAnEntryOfTheLog(t *testing.T) {
	for _, principal := range []string{"ann", ""} {
		skippedNumbers(t, principal)
	}
}

func skippedNumbers(t *testing.T, principal string) {
	t.Helper()
	w := newWorld(t, record.Stream{
		Name: "chat", Admission: record.BySequence, LogRetention: time.Hour, LogMessages: true, Gap: record.Gap{Policy: record.GapSkip, After: time.Minute},
	})
	numbered := func(n uint64) record.Message {
		return record.Message{Stream: "chat", Group: "room", Principal: principal, Source: "phone", Sequence: n}
	}
	w.send(numbered(1), numbered(4))
	w.now = w.now.Add(2 * time.Minute)
	if err := w.engine.CloseGaps(t.Context(), room); err != nil {
		t.Fatal(err)
	}
	page, err := w.read(log.Offset{}, 10)
	if err != nil || len(page.Entries) != 3 {
		t.Fatal(page, err)
	}
	var gap map[string]any
	if err := cbor.Unmarshal(page.Entries[1].AppendCBOR(nil, 7, cmp.Or(principal, "phone")), &gap); err != nil {
		t.Fatal(err)
	}
	if gap["kind"] != "gap" || gap["source"] != "phone" || gap["from"] != uint64(2) || gap["to"] != uint64(3) {
		t.Errorf("%v", gap)
	}
	if got, _ := gap["principal"].(string); got != principal {
		t.Errorf("the principal is %q, not %q", got, principal)
	}
}

func TestAMessageMayAppendMoreThanACommitOfSeveralDoes(t *testing.T) {
	w := newWorld(t, record.Stream{Name: "chat", LogRetention: time.Hour, Handler: func(_ context.Context, a *record.Attempt, m record.Message) error {
		for range 4 {
			a.Append(record.Entry{Body: []byte(strings.Repeat(m.ID, 200<<10))})
		}
		return nil
	}})
	w.send(said("a"), said("b"))
	if page, err := log.End(t.Context(), w.store, room); err != nil || page.Log.Last != 8 {
		t.Errorf("%d entries, %v", page.Log.Last, err)
	}
}
