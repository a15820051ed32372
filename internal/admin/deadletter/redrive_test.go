package deadletter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/admin/deadletter"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/pebblequeue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// A recorder stands for the ingress queue: it records the ids of the redriven messages.
type recorder struct {
	ids []string
	// before runs before a message is recorded; its error fails the redrive of that message.
	before func(id string) error
	// answered are the ids of letters whose callers were answered; of reopened letters, the answer
	// was taken back.
	answered, reopened []string
}

func (r *recorder) Answered(_ context.Context, refused record.Refused) (bool, error) {
	return slices.Contains(r.answered, refused.Message.ID), nil
}

func (r *recorder) Reopen(_ context.Context, m *record.Message) error {
	r.reopened = append(r.reopened, m.ID)
	return nil
}

func (r *recorder) Redrive(_ context.Context, refused record.Refused) error {
	id := refused.Message.ID
	if r.before != nil {
		if err := r.before(id); err != nil {
			return err
		}
	}
	r.ids = append(r.ids, id)
	return nil
}

func (r *recorder) Trigger(context.Context, []record.GroupKey, time.Duration) error { return nil }

// letters returns a dead-letter queue, whose clock is now, with the refused messages 1 to n.
func letters(t *testing.T, now func() time.Time, n int) *pebblequeue.Queue {
	t.Helper()
	db, err := pebbledb.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	q, err := pebblequeue.Open(db, "ingress-dead", pebblequeue.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(q.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	for i := range n {
		refuse(t, q, fmt.Sprint(i+1))
	}
	return q
}

func refuse(t *testing.T, q *pebblequeue.Queue, id string) {
	t.Helper()
	m := record.Message{Stream: "orders", ID: id, Body: []byte("x")}
	letter := wire.ToDeadLetter(record.Refused{Message: m, Reason: record.ReasonHandler}, queue.MaxSize)
	if r := q.Send(t.Context(), []queue.Message{letter}); r[0].Err != nil {
		t.Fatal(r[0].Err)
	}
}

// waiting returns the ids of the letters that a new walk sees.
func waiting(t *testing.T, q *pebblequeue.Queue) []string {
	t.Helper()
	var ids []string
	w := &deadletter.Walk{Queue: q}
	if _, err := w.Run(t.Context(), func(_ context.Context, l *deadletter.Letter) (deadletter.Verdict, bool) {
		ids = append(ids, l.Refused.Message.ID)
		return deadletter.Keep, true
	}); err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(slices.Values(ids))
}

func TestALetterThatIsRefusedAgainDuringARedriveIsNotPutBackAgain(t *testing.T) {
	now := time.Now()
	q := letters(t, func() time.Time { return now }, 2)
	begun := now
	back := &recorder{before: func(id string) error { // the handler fails again, a moment later
		now = now.Add(time.Millisecond)
		if len(id) < 10 {
			refuse(t, q, id+"!")
		}
		return nil
	}}
	r, err := deadletter.Redrive(t.Context(), &deadletter.Walk{Queue: q}, back, deadletter.Options{Until: begun})
	if err != nil || !r.Through {
		t.Fatalf("%+v, %v", r, err)
	}
	if d := cmp.Diff([]string{"1", "2"}, slices.Sorted(slices.Values(back.ids))); d != "" || r.Redriven != 2 || r.Left != 2 {
		t.Errorf("put back (-want +got)\n%s\n%+v", d, r)
	}
}

func TestARedriveStopsAtMax(t *testing.T) {
	for most, want := range map[int]int{1: 1, 3: 3, 12: 12, 0: 12} { // 0 is all
		q := letters(t, nil, 12)
		back := &recorder{}
		w := &deadletter.Walk{Queue: q}
		r, err := deadletter.Redrive(t.Context(), w, back, deadletter.Options{Max: most, Until: time.Now()})
		if err != nil || r.Redriven != want || len(back.ids) != want {
			t.Errorf("max %d: %+v, %v; %d put back, want %d", most, r, err, len(back.ids), want)
		}
		w.Release(t.Context(), time.Minute)
		if left := waiting(t, q); len(left) != 12-want {
			t.Errorf("max %d: %d letters are left, want %d", most, len(left), 12-want)
		}
	}
}

func TestAnInterruptedLetterIsNotCountedAsFailedAndStays(t *testing.T) {
	q := letters(t, nil, 3)
	ctx, cancel := context.WithCancel(t.Context())
	back := &recorder{before: func(string) error {
		cancel()
		return ctx.Err()
	}}
	r, err := deadletter.Redrive(ctx, &deadletter.Walk{Queue: q}, back, deadletter.Options{Until: time.Now()})
	if !errors.Is(err, context.Canceled) || r.Failed != 0 || len(r.Failures) != 0 || r.Redriven != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if left := waiting(t, q); !cmp.Equal([]string{"1", "2", "3"}, left) {
		t.Errorf("the next walk sees %q", left)
	}
}

func TestALetterThatWasPutBackIsDeletedEvenIfTheContextEnds(t *testing.T) {
	q := letters(t, nil, 2)
	ctx, cancel := context.WithCancel(t.Context())
	back := &recorder{before: func(string) error {
		cancel() // the message is sent nevertheless
		return nil
	}}
	r, err := deadletter.Redrive(ctx, &deadletter.Walk{Queue: q}, back, deadletter.Options{Until: time.Now()})
	if !errors.Is(err, context.Canceled) || r.Redriven != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if left := waiting(t, q); !cmp.Equal([]string{"2"}, left) {
		t.Errorf("put back %q, and the next walk sees %q", back.ids, left)
	}
}

// A locked queue can't delete one letter.
type locked struct {
	*pebblequeue.Queue
	err error
}

func (l *locked) Delete(ctx context.Context, receipts []string) []error {
	return append(l.Queue.Delete(ctx, receipts[:len(receipts)-1]), l.err)
}

func TestADropCountsWhatWasDeletedAndLogsWhoDroppedWhich(t *testing.T) {
	q := &locked{letters(t, nil, 3), errors.New("disk on fire")}
	var text bytes.Buffer
	o := deadletter.Options{Until: time.Now(), By: "ann", Log: slog.New(slog.NewTextHandler(&text, nil))}
	got, err := deadletter.Drop(t.Context(), &deadletter.Walk{Queue: q}, o)
	if !errors.Is(err, q.err) || got.Dropped != 2 || len(got.Letters) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	if len(lines) != 3 || !strings.Contains(lines[2], "not dropped") || !strings.Contains(lines[2], "disk on fire") {
		t.Errorf("logged %q", lines)
	}
	for i, l := range got.Letters {
		for _, want := range []string{"dead letter dropped", "by=ann", "queue=ingress-dead", "message_id=" + l.MessageID, "stream=orders", "sent=", "hash="} {
			if !strings.Contains(lines[i], want) {
				t.Errorf("no %s in %q", want, lines[i])
			}
		}
	}
}

func TestALetterWhoseCallerWasAnsweredStaysUnlessTheOperatorAsksForIt(t *testing.T) {
	q := letters(t, time.Now, 3)
	back := &recorder{answered: []string{"2"}}
	var log bytes.Buffer
	o := deadletter.Options{Until: time.Now().Add(time.Hour), By: "ann", Log: slog.New(slog.NewTextHandler(&log, nil))}
	w := &deadletter.Walk{Queue: q}
	r, err := deadletter.Redrive(t.Context(), w, back, o)
	w.Release(t.Context(), time.Minute)
	if err != nil || r.Redriven != 2 || r.Answered != 1 || r.Failed != 0 || !slices.Equal(back.ids, []string{"1", "3"}) || len(back.reopened) > 0 {
		t.Fatalf("%+v, %v; put back %q, reopened %q", r, err, back.ids, back.reopened)
	}
	o.Answered = true
	r, err = deadletter.Redrive(t.Context(), &deadletter.Walk{Queue: q}, back, o)
	if err != nil || r.Redriven != 1 || r.Answered != 0 || !slices.Equal(back.ids, []string{"1", "3", "2"}) || !slices.Equal(back.reopened, []string{"2"}) {
		t.Errorf("%+v, %v; put back %q, reopened %q", r, err, back.ids, back.reopened)
	}
	if text := log.String(); strings.Count(text, "though its caller was answered") != 1 || !strings.Contains(text, "by=ann") {
		t.Errorf("logged: %s", text)
	}
}
