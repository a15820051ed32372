package session_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/fxamacker/cbor/v2"

	"github.com/effectively-once/once/clock"
	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/dedup/pebblestore"
	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

// A world is a store with logs, with a clock that the test moves.
type world struct {
	*testing.T
	now   time.Time
	store session.Store
	pool  session.Pool
	*session.Sessions
	ends int // how many entries the logs have
}

const stream = "work"

var (
	ann = session.ID{Stream: stream, Name: "ann"}
	bob = session.ID{Stream: stream, Name: "bob"}
)

// each runs a test on every store.
func each(t *testing.T, cfg session.Config, pool session.Pool, test func(w *world)) {
	t.Helper()
	stores := map[string]func(*testing.T, func() time.Time) session.Store{
		"memory": func(_ *testing.T, now func() time.Time) session.Store { return memstore.New(now) },
		"pebble": func(t *testing.T, now func() time.Time) session.Store {
			t.Helper()
			db, err := pebbledb.Open("data", &pebble.Options{FS: vfs.NewMem()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
			return pebblestore.New(db, pebblestore.Options{Now: now})
		},
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			w := &world{T: t, pool: pool, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
			w.store = open(t, func() time.Time { return w.now })
			cfg.Pools = map[string]session.Pool{stream: pool}
			cfg.Now = func() time.Time { return w.now }
			w.Sessions = session.New(w.store, cfg)
			test(w)
		})
	}
}

// append appends entries with these ids to the log of a group, in one commit. The id "end" ends the
// log.
func (w *world) append(key record.GroupKey, ids ...string) {
	w.Helper()
	w.appendBodies(key, nil, ids...)
}

// appendLarge appends an entry with a body of some size.
func (w *world) appendLarge(key record.GroupKey, size int) {
	w.Helper()
	w.appendBodies(key, make([]byte, size), "large")
}

// appendBodies is append for entries with a body.
func (w *world) appendBodies(key record.GroupKey, body []byte, ids ...string) {
	w.Helper()
	groups, _, err := w.store.Load(w.Context(), []record.GroupKey{key}, nil)
	if err != nil {
		w.Fatal(err)
	}
	next := groups[0]
	next.Version++
	if next.Version == 1 {
		next.Incarnation = uint64(w.now.UnixMilli())
	}
	next.Expires, next.Log.Until = w.now.Add(24*time.Hour), w.now.Add(time.Hour)
	var entries []record.Entry
	for _, id := range ids {
		next.Log.Last++
		next.Log.Time = max(next.Log.Time+1, clock.HybridAt(w.now))
		x := record.Entry{Number: next.Log.Last, Kind: record.EntryMessage, ID: id, Time: next.Log.Time, Body: body}
		if id == "end" {
			x.Kind, next.Log.Ended = record.EntryEnd, true
		}
		entries = append(entries, x)
	}
	c := record.Commit{Loaded: groups[0], Next: next, Attempt: fmt.Sprint("append ", next.Version), Append: log.Chunks(&next, entries)}
	if err := w.store.Commit(w.Context(), c); err != nil {
		w.Fatal(err)
	}
}

// fill appends n entries to a partition.
func (w *world) fill(partition uint64, n int) {
	w.Helper()
	ids := make([]string, n)
	for i := range ids {
		w.ends++
		ids[i] = fmt.Sprint("m", w.ends)
	}
	w.append(session.Partition(stream, partition), ids...)
}

func (w *world) end(partition uint64) {
	w.Helper()
	w.append(session.Partition(stream, partition), "end")
}

// open takes a session, and returns its fence.
func (w *world) open(id session.ID, take session.Take) session.Opened {
	w.Helper()
	o, err := w.Open(w.Context(), id, session.Opening{Holder: "of " + id.Name, Take: take})
	if err != nil {
		w.Fatal(err)
	}
	return o
}

func (w *world) read(id session.ID, fence uint64, limit int) session.Page {
	w.Helper()
	page, err := w.Read(w.Context(), id, session.Reading{Fence: fence, Limit: limit})
	if err != nil {
		w.Fatal(err)
	}
	return page
}

func (w *world) readAfter(id session.ID, fence, after uint64, limit int) (session.Page, error) {
	w.Helper()
	return w.Read(w.Context(), id, session.Reading{Fence: fence, After: &after, Limit: limit})
}

func (w *world) commit(id session.ID, fence, from, to uint64) {
	w.Helper()
	if err := w.Commit(w.Context(), id, session.Commit{Fence: fence, From: from, To: to}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) retire(id session.ID, fence uint64) {
	w.Helper()
	if err := w.Retire(w.Context(), id, session.Retirement{Fence: fence}); err != nil {
		w.Fatal(err)
	}
}

// shown returns the entries of a page as number:id, with a cross for a dead letter.
func (w *world) shown(p session.Page) (out string) {
	w.Helper()
	for _, e := range p.Entries {
		var x struct{ ID string }
		if e.End {
			x.ID = "end"
		} else if err := cbor.Unmarshal(e.AppendCBOR(nil, e.Offset.Incarnation, ""), &x); err != nil {
			w.Fatal(err)
		}
		if out += fmt.Sprintf(" %d:%s", e.Number, x.ID); e.Dead {
			out += "x"
		}
	}
	if p.End {
		out += " END"
	}
	return out
}

// is fails the test if a page has other entries.
func (w *world) is(p session.Page, want string) {
	w.Helper()
	if got := w.shown(p); got != want {
		w.Errorf("got %s, want %s", got, want)
	}
}

// fails returns the error of a type, and fails the test if there is another one or none.
func fails[T any, E interface {
	*T
	error
}](w *world, err error,
) T {
	w.Helper()
	e, ok := errors.AsType[E](err)
	if !ok {
		w.Fatalf("got %v, want a %T", err, e)
	}
	return *e
}
