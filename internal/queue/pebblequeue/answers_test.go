package pebblequeue

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/queue"
)

func TestAReceiveOfNoMessageIsAnError(t *testing.T) {
	q := open(t, newDB(t), "q", Options{})
	if _, err := q.Receive(t.Context(), 0, time.Minute, 0); err == nil {
		t.Error("it waits for nothing")
	}
}

// dying returns a queue with a message that the next receive dead-letters, and its dead-letter
// queue.
func dying(t *testing.T) (q, dead *Queue) {
	t.Helper()
	db := newDB(t)
	dead = open(t, db, "dead", Options{})
	q = open(t, db, "q", Options{DeadLetter: dead, MaxReceives: 1})
	d := taken(t, q, queue.Message{Body: "poison"})[0]
	if err := q.ChangeVisibility(t.Context(), d.Receipt, 0); err != nil {
		t.Fatal(err)
	}
	return q, dead
}

func TestAFailedMoveToTheDeadLetterQueueIsAnErrorIfNothingElseIsReceived(t *testing.T) {
	q, dead := dying(t)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := q.Receive(t.Context(), 10, time.Minute, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("%d messages, %v", len(out), err)
	}
}

func TestAFailedMoveToTheDeadLetterQueueBlocksNoOtherMessage(t *testing.T) {
	q, dead := dying(t)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), []queue.Message{{Body: "sound"}}) })
	if out, err := q.Receive(t.Context(), 10, time.Minute, 0); err != nil || bodies(out) != "sound" {
		t.Errorf("received %q, %v", bodies(out), err)
	}
}

func TestAReceiveThatFindsItsMessageDeletedLooksForAnother(t *testing.T) {
	db := newDB(t)
	q := open(t, db, "q", Options{})
	mustSend(t, func() []queue.SendResult {
		return q.Send(t.Context(), []queue.Message{{Body: "gone"}, {Body: "there"}})
	})
	if err := db.SingleDelete(q.key(kindMessage, q.index.ready.head.seq), pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	if out := receive(t, q, 1, time.Minute); bodies(out) != "there" {
		t.Errorf("received %q", bodies(out))
	}
}

func TestAMessageThatCanNotBeReadIsAnErrorIfNothingElseIsReceived(t *testing.T) {
	for _, others := range [][]queue.Message{nil, {{Body: "whole"}}} {
		q := open(t, newDB(t), "q", Options{})
		mustSend(t, func() []queue.SendResult {
			return q.Send(t.Context(), append([]queue.Message{{Body: "torn"}}, others...))
		})
		set(t, q.db, q.key(kindMessage, q.index.ready.head.seq), []byte("torn"))
		out, err := q.Receive(t.Context(), 2, time.Minute, 0)
		if len(out) != len(others) || (err == nil) != (len(others) > 0) {
			t.Errorf("received %q beside %d others, %v", bodies(out), len(others), err)
		}
		if err != nil && !strings.Contains(err.Error(), "decode record") {
			t.Error(err)
		}
	}
}

func TestAQueueWithoutDeduplicationAcceptsEveryMessage(t *testing.T) {
	c := newClock()
	q := open(t, newDB(t), "q.fifo", Options{Now: c.Now})
	mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), inGroup("g", "a")) })
	c.Advance(-time.Second)
	mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), inGroup("g", "a")) })
	if n := q.Len(); n != 2 {
		t.Errorf("%d messages, want both", n)
	}
}

func TestExpiredDeduplicationRecordsAreDeleted(t *testing.T) {
	c := newClock()
	q := open(t, newDB(t), "q.fifo", Options{Deduplicate: time.Minute, Now: c.Now})
	mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), inGroup("g", "a", "b")) })
	c.Advance(time.Minute)
	for range 2 {
		mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), inGroup("g", "c")) })
		remembered := 0
		if err := q.scan(kindDedup, func([]byte, []byte) error { remembered++; return nil }); err != nil || remembered != 1 {
			t.Errorf("%d are remembered, %v; want the last one", remembered, err)
		}
	}
}

func TestOnlyFIFOQueuesReturnSequenceNumbers(t *testing.T) {
	for name, want := range map[string]bool{"q": false, "q.fifo": true} {
		r := mustSend(t, func() []queue.SendResult {
			return open(t, newDB(t), name, Options{}).Send(t.Context(), inGroup("g", "a"))
		})
		if got := r[0].SequenceNumber != ""; got != want {
			t.Errorf("%s: sequence number %q", name, r[0].SequenceNumber)
		}
	}
}

func TestAMessageWhoseDeleteFailedCanBeDeletedLater(t *testing.T) {
	q := open(t, newDB(t), "q.fifo", Options{})
	mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), inGroup("g", "1")) })
	d := receive(t, q, 1, time.Minute)[0]
	db := q.db
	q.db = readOnly(t)
	if errs := q.Delete(t.Context(), []string{d.Receipt}); errs[0] == nil {
		t.Fatal("deleted in a database that takes no writes")
	}
	q.db = db
	if errs := q.Delete(t.Context(), []string{d.Receipt}); errs[0] != nil || q.Len() != 0 {
		t.Errorf("%d messages are left: %v", q.Len(), errs[0])
	}
}

func TestADeleteLeavesNoReceiveCount(t *testing.T) {
	db := newDB(t)
	q := open(t, db, "q", Options{})
	d := taken(t, q, queue.Message{Body: "a"})[0]
	counts := func() int {
		n := 0
		if err := q.scan(kindReceives, func(_, _ []byte) error { n++; return nil }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if counts() != 1 {
		t.Fatalf("%d counts after a receive", counts())
	}
	if err := errors.Join(q.Delete(t.Context(), []string{d.Receipt})...); err != nil {
		t.Fatal(err)
	}
	if counts() != 0 {
		t.Errorf("%d counts are left", counts())
	}
}

// readOnly returns a database that takes no writes.
func readOnly(t *testing.T) *pebble.DB {
	t.Helper()
	disk := vfs.NewCrashableMem()
	onFS(t, disk)
	db, err := pebbledb.Open("db", &pebble.Options{FS: disk.CrashClone(vfs.CrashCloneCfg{}), ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestASequenceNumberHasTwentyDigits(t *testing.T) {
	for seq, want := range map[uint64]string{0: "00000000000000000000", 1<<40 | 907: "00000001099511628683", math.MaxUint64: "18446744073709551615"} {
		if got := sequenceNumber(seq); got != want {
			t.Errorf("%d: %s", seq, got)
		}
	}
}

func TestOnlySendsThatWaitForTheDiskUseTheGivenWrite(t *testing.T) {
	db, calls, failure := newDB(t), 0, error(nil)
	q := open(t, db, "q", Options{Write: func(batch *pebble.Batch) error {
		calls++
		if failure != nil {
			return errors.Join(failure, batch.Close())
		}
		return errors.Join(batch.Commit(pebble.Sync), batch.Close())
	}})
	m := []queue.Message{{Body: "x"}}
	if r := q.SendOrdered(t.Context(), m); r[0].Err != nil || calls != 0 {
		t.Errorf("a send that does not wait: %v, %d calls", r[0].Err, calls)
	}
	if r := q.Send(t.Context(), m); r[0].Err != nil || calls != 1 || q.Len() != 2 {
		t.Errorf("a send: %v, %d calls, %d messages", r[0].Err, calls, q.Len())
	}
	failure = errors.New("disk full")
	if r := q.Send(t.Context(), m); !errors.Is(r[0].Err, failure) || q.Len() != 2 {
		t.Errorf("a send that fails: %v, %d messages", r[0].Err, q.Len())
	}
}
