package dedup_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
)

func TestACommitReportsItsGroupOnlyIfItAppendsToTheLog(t *testing.T) {
	for _, logs := range []bool{true, false} {
		var appended []string
		stream := byKey
		stream.LogRetention, stream.LogMessages = time.Hour, logs
		w := newLab(t).workerOf(dedup.Config{
			Streams: []record.Stream{stream}, Appended: func(key record.GroupKey) { appended = append(appended, key.Group) },
		})
		var want []string
		if logs {
			want = []string{"g"}
		}
		same(t, "fates", w.process(keyed("a")...), []string{"processed"})
		same(t, "reported", appended, want)
		same(t, "fates", w.process(keyed("a")...), []string{"duplicate"})
		same(t, "reported after a copy", appended, want)
	}
}

// logging returns a stream that logs its messages.
func logging(s record.Stream) record.Stream {
	s.LogRetention, s.LogMessages = time.Hour, true
	return s
}

func TestOneCommitAppendsABoundedNumberOfBytes(t *testing.T) {
	w := newLab(t).worker(logging(byKey))
	large := ": " + strings.Repeat(" ", 200<<10)
	same(t, "fates", w.process(keyed("a"+large, "b"+large, "c"+large, "d"+large)...), []string{"processed", "processed", "processed", "processed"})
	g := w.group()
	same(t, "commits", g.Version, 2)
	same(t, "entries", g.Log.Last, 4)
}

// The store wrapper of tests panics at a commit with more held messages and chunks than one
// transaction takes.
func TestOneCommitHasRoomForHeldMessagesAndTheirEntries(t *testing.T) {
	w := newLab(t).worker(logging(bySequence))
	body := ": " + strings.Repeat(" ", 5000)
	var later []string
	for n := range record.MaxCommitItems {
		later = append(later, fmt.Sprint(n+2, body))
	}
	batch := append(numbered(later...), numbered("q/0/1"+body)...)
	for i, o := range w.Process(t.Context(), batch) {
		if !o.Settled() {
			t.Errorf("message %d: %+v", i, o)
		}
	}
	same(t, "held", w.group().Sources["p"].Held.Contains(2), true)
	same(t, "the first", w.process(numbered("1"+body)...), []string{"processed"})
	same(t, "entries", w.group().Log.Last, uint64(len(batch)+1))
}

// The handler appends an entry of 70 kB for each byte of the body, so each entry is a chunk.
func TestACommitThatReleasesHeldMessagesLeavesManyEntriesToTheNext(t *testing.T) {
	stream := bySequence
	stream.LogRetention = time.Hour
	stream.Handler = func(_ context.Context, a *record.Attempt, m record.Message) error {
		for range m.Body {
			a.Append(record.Entry{Body: make([]byte, 70_000)})
		}
		return nil
	}
	for _, large := range []int{2, 50, 96} { // the held message with the entries
		var held []string
		for n := 2; n <= 96; n++ {
			if n == large {
				held = append(held, fmt.Sprint(n, ": 1234567"))
			} else {
				held = append(held, fmt.Sprint(n))
			}
		}
		for _, first := range []string{"", "x"} {
			w := newLab(t).worker(stream)
			w.process(numbered(held...)...)
			same(t, "fates", w.process(numbered("1: "+first)...), []string{"processed"})
			g := w.group()
			same(t, "next", g.Sources["p"].Next, 97)
			same(t, "entries", g.Log.Last, uint64(7+len(first)))
		}
	}
}

func TestASkippedGapIsNoEntryIfItsStreamHasNoLog(t *testing.T) {
	w := newLab(t).worker(gapped(record.GapSkip))
	w.process(numbered("3")...)
	w.pass(time.Minute)
	w.closeGaps()
	same(t, "next", w.group().Sources["p"].Next, 4)
	same(t, "log", w.group().Log, record.Log{})
}

func TestARecordWithoutALogHasNoTimeOfItsLog(t *testing.T) {
	w := newLab(t).worker(byKey)
	w.process(keyed("a")...)
	same(t, "log", w.group().Log, record.Log{})
}

func TestAStreamThatKeepsNoLogLogsNoMessages(t *testing.T) {
	s := byKey
	s.LogMessages = true
	w := newLab(t).worker(s)
	same(t, "fates", w.process(keyed("a")...), []string{"processed"})
	same(t, "log", w.group().Log, record.Log{})
}

func TestAMessageThatItsHandlerOmitsIsNotInTheLog(t *testing.T) {
	l := newLab(t)
	l.scripts["a"] = func(_ context.Context, a *record.Attempt, _ record.Message) error {
		a.OmitMessage()
		return nil
	}
	same(t, "fates", l.worker(logging(byKey)).process(keyed("a", "b")...), []string{"processed", "processed"})
	same(t, "log", l.entries(), "b")
}

// The messages far ahead are dead-lettered, and a gap entry has no room in their commit.
func TestOneCommitHasRoomForReleasedMessagesAndGapEntries(t *testing.T) {
	w := newLab(t).worker(logging(gapped(record.GapSkip)))
	var batch []string
	for n := range record.MaxCommitItems {
		batch = append(batch, fmt.Sprintf("far%02d/0/20000", n))
	}
	for _, message := range append(batch, "near/0/2") {
		same(t, "fates", w.process(numbered(message)...), []string{"held"})
	}
	w.pass(time.Minute)
	w.closeGaps()
	same(t, "dead letters", len(w.lettered()), record.MaxCommitItems)
	same(t, "state", string(w.group().State), "near/0/2,")
	same(t, "entries", w.group().Log.Last, 2)
}
