package pebblequeue

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/effectively-once/once/internal/queue"
)

// taken sends messages to a queue and receives them.
func taken(t *testing.T, q *Queue, messages ...queue.Message) []queue.Delivery {
	t.Helper()
	mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), messages) })
	out := receive(t, q, len(messages), time.Minute)
	if len(out) != len(messages) {
		t.Fatalf("received %d of %d", len(out), len(messages))
	}
	return out
}

func mustDelete(t *testing.T, q *Queue, receipts ...string) {
	t.Helper()
	if err := errors.Join(q.Delete(t.Context(), receipts)...); err != nil {
		t.Fatal(err)
	}
}

func TestInvalidReceiptsDeleteNothing(t *testing.T) {
	q := open(t, newDB(t), "q", Options{})
	d := taken(t, q, queue.Message{Body: "x"})[0]
	seq := strings.Split(d.Receipt, "-")[1]
	mustDelete(t, q, "x-"+seq+"-1", "1-"+seq+"-", "1-"+seq)
	if q.Len() != 1 {
		t.Error("the message is gone")
	}
	if err := q.ChangeVisibility(t.Context(), "1-ffff-1", 0); !errors.Is(err, ErrNotInFlight) {
		t.Errorf("a message that is not there is hidden: %v", err)
	}
}

func TestOneCallMayRepeatAReceipt(t *testing.T) {
	for _, name := range []string{"q", "q.fifo"} {
		q := open(t, newDB(t), name, Options{})
		d := taken(t, q, inGroup("g", "a", "b")...)
		mustDelete(t, q, d[0].Receipt, d[0].Receipt)
		if got := q.Stats(); got != (Stats{InFlight: 1}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestAReceiptFromBeforeARestartDeletesNothingOnAFIFOQueue(t *testing.T) {
	fs := vfs.NewCrashableMem()
	q := open(t, onFS(t, fs), "q.fifo", Options{})
	before := taken(t, q, inGroup("g", "a")...)[0]
	again := open(t, crash(t, fs), "q.fifo", Options{})
	if d := receive(t, again, 1, time.Minute); len(d) != 1 || d[0].Receives != 1 {
		t.Fatalf("the crash took no count back: %+v", d)
	}
	mustDelete(t, again, before.Receipt)
	if again.Len() != 1 {
		t.Error("another incarnation's receipt deletes the message of the one who has it now")
	}
}

func TestAMessageMadeVisibleBelongsToTheNextReceiver(t *testing.T) {
	q := open(t, newDB(t), "q.fifo", Options{})
	d := taken(t, q, inGroup("g", "a")...)[0]
	if err := q.ChangeVisibility(t.Context(), d.Receipt, 0); err != nil {
		t.Fatal(err)
	}
	mustDelete(t, q, d.Receipt)
	if got := q.Stats(); got != (Stats{Ready: 1}) {
		t.Errorf("%+v", got)
	}
}

func TestAMessageBeingDeletedIsNeitherHiddenNorReceived(t *testing.T) {
	q := open(t, newDB(t), "q", Options{})
	d := taken(t, q, queue.Message{Body: "a"}, queue.Message{Body: "b"})
	if err := q.ChangeVisibility(t.Context(), d[1].Receipt, 0); err != nil {
		t.Fatal(err)
	}
	claimed := q.claim([]string{d[0].Receipt, d[1].Receipt}) // one in flight, one ready
	if err := q.ChangeVisibility(t.Context(), d[0].Receipt, 0); !errors.Is(err, ErrNotInFlight) {
		t.Errorf("hidden while it is deleted: %v", err)
	}
	if got := receive(t, q, 2, time.Minute); len(got) != 0 || len(claimed) != 2 {
		t.Errorf("%d are being deleted, and given out: %s", len(claimed), bodies(got))
	}
	if err := q.delete(claimed); err != nil {
		t.Error(err)
	}
}

func TestADeadMessageBlocksItsGroupUntilItIsMoved(t *testing.T) {
	x := newIndex(true)
	for seq := range uint64(2) {
		x.show(x.add(seq, 7))
	}
	x.groups[7].entries.head.receives = 1
	if given, dead := x.take(10, 100, 1); len(given) != 0 || len(dead) != 1 {
		t.Errorf("%d given out behind %d dead ones", len(given), len(dead))
	}
}

func TestAMessageDeletedDuringAReceiveIsNoError(t *testing.T) {
	db := newDB(t)
	q := open(t, db, "q", Options{})
	mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), []queue.Message{{Body: "x"}}) })
	given, _, _ := q.take(1, time.Minute, false)
	if err := db.SingleDelete(q.key(kindMessage, given[0].entry.seq), pebble.NoSync); err != nil {
		t.Fatal(err)
	}
	if out, err := q.read(given); len(out) != 0 || err != nil {
		t.Errorf("%d messages, %v", len(out), err)
	}
}

func TestRepeatedMessagesGetTheFirstResult(t *testing.T) {
	c := newClock()
	q := open(t, newDB(t), "q.fifo", Options{Deduplicate: time.Minute, Now: c.Now})
	if r := q.Send(t.Context(), []queue.Message{{Body: "no group"}}); r[0].Err == nil {
		t.Error("an invalid message is accepted") // and its deduplication id must not be remembered
	}
	all := mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), inGroup("g", "a", "b", "a", "b")) })
	if all[0].ID != all[2].ID || all[1].ID != all[3].ID || all[0].ID == all[1].ID {
		t.Errorf("%+v", all)
	}
	c.Advance(time.Minute)
	var ids []string
	for range 3 { // the first is new, and the older one is forgotten
		ids = append(ids, mustSend(t, func() []queue.SendResult { return q.Send(t.Context(), inGroup("g", "a")) })[0].ID)
	}
	if ids[0] == all[0].ID || fmt.Sprint(ids) != fmt.Sprint([]string{ids[0], ids[0], ids[0]}) {
		t.Errorf("%v after %s", ids, all[0].ID)
	}
}
