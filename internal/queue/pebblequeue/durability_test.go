package pebblequeue

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

// crash returns the database as it would be after a power loss: without unsynced writes.
func crash(t *testing.T, fs *vfs.MemFS) *pebble.DB {
	t.Helper()
	return onFS(t, fs.CrashClone(vfs.CrashCloneCfg{}))
}

func onFS(t *testing.T, fs *vfs.MemFS) *pebble.DB {
	t.Helper()
	db, err := pebbledb.Open("db", &pebble.Options{FS: fs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func inGroup(name string, bodies ...string) (out []queue.Message) {
	for _, b := range bodies {
		out = append(out, queue.Message{Body: b, Group: name, DedupID: b})
	}
	return out
}

func mustSend(t testing.TB, send func() []queue.SendResult) []queue.SendResult {
	t.Helper()
	results := send()
	for _, r := range results {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	return results
}

func receive(t testing.TB, q *Queue, limit int, visibility time.Duration) []queue.Delivery {
	t.Helper()
	out, err := q.Receive(t.Context(), limit, visibility, 0)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func bodies(ds []queue.Delivery) string {
	var out []string
	for _, d := range ds {
		out = append(out, d.Body)
	}
	return strings.Join(out, " ")
}

func TestSentMessagesSurviveACrashInOrder(t *testing.T) {
	fs := vfs.NewCrashableMem()
	q := open(t, onFS(t, fs), "q.fifo", Options{})
	sent := mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), inGroup("g", "1", "2")) })
	sent = append(sent, mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), inGroup("g", "3")) })...)

	again := open(t, crash(t, fs), "q.fifo", Options{})
	got := receive(t, again, 10, time.Minute)
	if bodies(got) != "1 2 3" {
		t.Fatalf("received %q", bodies(got))
	}
	for i := range got {
		if got[i].ID != sent[i].ID || got[i].SequenceNumber != sent[i].SequenceNumber {
			t.Errorf("sent %+v, received %+v", sent[i], got[i])
		}
	}
}

func TestAnOrderedSendIsDurableNoLaterThanALaterWrite(t *testing.T) {
	fs := vfs.NewCrashableMem()
	db := onFS(t, fs)
	q := open(t, db, "q", Options{})
	mustSend(t, func() []queue.SendResult { return q.SendOrdered(t.Context(), inGroup("", "first")) })
	if got := receive(t, q, 1, 0); bodies(got) != "first" {
		t.Fatalf("an ordered send was not given out at once: %q", bodies(got))
	}
	if err := db.Set([]byte("x"), []byte("later"), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	mustSend(t, func() []queue.SendResult { return q.SendOrdered(t.Context(), inGroup("", "lost")) })
	again := open(t, crash(t, fs), "q", Options{})
	if got := receive(t, again, 10, time.Minute); bodies(got) != "first" {
		t.Errorf("after the crash %q", bodies(got))
	}
}

func TestDelaysCountsAndDedupWindowsSurviveARestart(t *testing.T) {
	dir, c := t.TempDir(), newClock()
	o := Options{Now: c.Now, Deduplicate: 5 * time.Minute}
	db := openDB(t, dir)
	q := open(t, db, "q", o)
	first := mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), inGroup("", "a")) })
	mustSend(t, func() []queue.SendResult {
		return q.Send(t.Context(), []queue.Message{{Body: "late", DedupID: "late", Delay: 2 * time.Minute}})
	})
	receive(t, q, 1, time.Hour)
	closeAll(t, q, db)

	db = openDB(t, dir)
	q = open(t, db, "q", o)
	if diff := cmp.Diff(Stats{Ready: 1, Delayed: 1}, q.Stats()); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
	again := mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), inGroup("", "a")) })
	if again[0].ID != first[0].ID {
		t.Errorf("sent as %s, repeated as %s", first[0].ID, again[0].ID)
	}
	if got := receive(t, q, 10, time.Hour); len(got) != 1 || got[0].Receives != 2 {
		t.Errorf("received %+v", got)
	}
	c.Advance(6 * time.Minute)
	if got := receive(t, q, 10, time.Hour); bodies(got) != "late" {
		t.Errorf("after the delay %q", bodies(got))
	}
	mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), inGroup("", "a")) })
	if n := q.Len(); n != 3 {
		t.Errorf("%d messages after the window, want 3", n)
	}
	closeAll(t, q, db)
}

func closeAll(t *testing.T, q *Queue, db *pebble.DB) {
	t.Helper()
	if err := closed(t, q); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestSequenceNumbersAreNeverUsedTwice(t *testing.T) {
	db := newDB(t)
	var last string
	for range 3 {
		q := open(t, db, "q.fifo", Options{})
		sent := mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), inGroup("g", "x")) })
		if sent[0].SequenceNumber <= last {
			t.Fatalf("%s after %s", sent[0].SequenceNumber, last)
		}
		last = sent[0].SequenceNumber
		for _, d := range receive(t, q, 10, time.Minute) {
			q.Delete(t.Context(), []string{d.Receipt})
		}
		if q.Len() != 0 {
			t.Fatal("not empty")
		}
		_ = closed(t, q)
	}
}

func TestACorruptRecordFailsOpenAndNamesItsKey(t *testing.T) {
	for _, kind := range []byte{kindMessage, kindReceives, kindDedup, kindIncarnation} {
		t.Run(string(kind), func(t *testing.T) {
			db := newDB(t)
			o := Options{Deduplicate: time.Minute}
			q := open(t, db, "q", o)
			mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), inGroup("", "precious")) })
			receive(t, q, 1, time.Minute)
			_ = closed(t, q)
			key, data := first(t, db, keyPrefix("q", kind))
			for _, bad := range [][]byte{data[:len(data)-1], flip(data, 0), flip(data, len(data)/2), flip(data, len(data)-1), {}} {
				if err := db.Set(key, bad, pebble.Sync); err != nil {
					t.Fatal(err)
				}
				if _, err := Open(db, "q", o); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", key)) {
					t.Errorf("open over %x: %v", bad, err)
				}
			}
		})
	}
}

func TestARecordUnderTheKeyOfAnotherFailsOpen(t *testing.T) {
	for _, kind := range []byte{kindMessage, kindReceives, kindDedup} {
		t.Run(string(kind), func(t *testing.T) {
			db := newDB(t)
			o := Options{Deduplicate: time.Minute}
			q := open(t, db, "q", o)
			mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), inGroup("", "precious")) })
			receive(t, q, 1, time.Minute)
			_ = closed(t, q)
			key, data := first(t, db, keyPrefix("q", kind))
			set(t, db, q.key(kind, keySeq(key)+1), data)
			if _, err := Open(db, "q", o); !errors.Is(err, record.ErrCorrupt) {
				t.Errorf("got %v, want %v", err, record.ErrCorrupt)
			}
		})
	}
}

func flip(data []byte, i int) []byte {
	out := append([]byte(nil), data...)
	out[i] ^= 1
	return out
}

func first(t *testing.T, db *pebble.DB, prefix []byte) (key, data []byte) {
	t.Helper()
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: prefix})
	if err != nil {
		t.Fatal(err)
	}
	defer it.Close()
	if !it.First() || !bytes.HasPrefix(it.Key(), prefix) {
		t.Fatalf("no record under %q", prefix)
	}
	return append([]byte(nil), it.Key()...), append([]byte(nil), it.Value()...)
}

func TestAMoveToTheDeadLetterQueueIsOneWrite(t *testing.T) {
	fs := vfs.NewCrashableMem()
	db, c := onFS(t, fs), newClock()
	dead := open(t, db, "dead.fifo", Options{Now: c.Now})
	q := open(t, db, "q.fifo", Options{Now: c.Now, DeadLetter: dead, MaxReceives: 1})
	sent := mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), inGroup("g", "poison", "next")) })
	receive(t, q, 1, time.Minute)
	c.Advance(2 * time.Minute)
	if got := receive(t, q, 10, time.Minute); bodies(got) != "next" {
		t.Fatalf("received %q", bodies(got))
	}
	if q.Len() != 1 || dead.Len() != 1 {
		t.Fatalf("%d here, %d dead", q.Len(), dead.Len())
	}

	// If the crash loses the move, the message is still in its old place.
	lost := crash(t, fs)
	lostDead := open(t, lost, "dead.fifo", Options{Now: c.Now})
	if q := open(t, lost, "q.fifo", Options{Now: c.Now, DeadLetter: lostDead, MaxReceives: 1}); q.Len() != 2 || lostDead.Len() != 0 {
		t.Errorf("after a crash %d here, %d dead", q.Len(), lostDead.Len())
	}
	// A later durable write makes the move durable too.
	mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), inGroup("other", "sync")) })
	kept := crash(t, fs)
	keptDead := open(t, kept, "dead.fifo", Options{Now: c.Now})
	if q := open(t, kept, "q.fifo", Options{Now: c.Now, DeadLetter: keptDead, MaxReceives: 1}); q.Len() != 2 || keptDead.Len() != 1 {
		t.Errorf("after a write and a crash %d here, %d dead", q.Len(), keptDead.Len())
	}
	if got := receive(t, keptDead, 10, time.Minute); bodies(got) != "poison" || got[0].ID != sent[0].ID || got[0].Receives != 1 {
		t.Errorf("dead %+v", got)
	}
}
