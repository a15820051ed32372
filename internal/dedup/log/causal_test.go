package log_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/effectively-once/once/clock"
	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/record"
)

func causal(t *testing.T) *world {
	t.Helper()
	return newWorld(t, record.Stream{Name: "chat", Admission: record.BySequence, LogRetention: time.Hour, LogMessages: true})
}

// from returns the first message of a source.
func from(source string, parents ...uint64) record.Message {
	return record.Message{Stream: "chat", Group: "room", Source: source, Sequence: 1, Parents: parents}
}

type readEntry struct {
	ID      string
	Parents []uint64
	Late    bool
	Time    clock.Hybrid
}

func (w *world) entries() (out []readEntry) {
	w.t.Helper()
	page, err := w.read(log.Offset{}, 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range page.Entries {
		var x readEntry
		if err := textMode.Unmarshal(e.AppendCBOR(nil, 1, ""), &x); err != nil {
			w.t.Fatal(err)
		}
		out = append(out, x)
	}
	return out
}

// textMode reads hybrid times from their texts.
var textMode, _ = cbor.DecOptions{TextUnmarshaler: cbor.TextUnmarshalerTextString}.DecMode()

func idsOf(entries []readEntry) string {
	var out []string
	for _, e := range entries {
		out = append(out, e.ID)
	}
	return strings.Join(out, " ")
}

func TestAnAnswerWaitsForItsParentsInWhateverOrderTheyArrive(t *testing.T) {
	w := causal(t)
	w.send(from("ann", 2)) // answers the second entry
	w.send(from("bob", 1)) // answers the first
	if got := w.entries(); len(got) != 0 {
		t.Fatalf("answers are in the log before their parents: %v", got)
	}
	w.send(from("cy"))
	if got := idsOf(w.entries()); got != "cy/0/1 bob/0/1 ann/0/1" {
		t.Errorf("got %s", got)
	}
	if got := w.entries()[2].Parents; len(got) != 1 || got[0] != 2 {
		t.Errorf("the answer names its parents as %v", got)
	}
}

func TestTheTimesOfALogRiseWithItsNumbersWhateverTheClocksSay(t *testing.T) {
	w := causal(t)
	start := w.now
	w.send(from("ann"))
	w.now = start.Add(-time.Hour) // the clock of another worker
	w.send(from("bob"))
	m := from("cy")
	m.Seen = clock.HybridAt(w.now.Add(time.Minute))
	w.now = start.Add(time.Second)
	w.send(m)
	got := w.entries()
	for i := range got[1:] {
		if got[i+1].Time <= got[i].Time {
			t.Errorf("entry %d has %s after %s", i+2, got[i+1].Time, got[i].Time)
		}
	}
	if want := clock.HybridAt(start); got[0].Time != want || got[1].Time != want+1 {
		t.Errorf("got %s and %s", got[0].Time, got[1].Time)
	}
}

func TestAnEntryIsLaterThanTheTimeThatItsSenderHasSeen(t *testing.T) {
	w := causal(t)
	ahead := from("ann")
	ahead.Seen = clock.HybridAt(w.now.Add(30*time.Second)) + 7
	w.send(ahead)
	behind := from("bob")
	behind.Seen = clock.HybridAt(w.now)
	w.send(behind)
	got := w.entries()
	if got[0].Time != ahead.Seen+1 || got[0].Late {
		t.Errorf("%+v does not follow %s", got[0], ahead.Seen)
	}
	if !got[1].Late || got[1].Time <= got[0].Time {
		t.Errorf("%+v was sent without knowledge of %+v", got[1], got[0])
	}
}

func TestAnEntryWhoseSenderNamesNoTimeIsNotLate(t *testing.T) {
	w := causal(t)
	w.send(from("ann"), from("bob"))
	if got := w.entries(); got[0].Late || got[1].Late {
		t.Errorf("got %+v", got)
	}
}

func TestATimeFarAheadIsRefusedWithBothTimes(t *testing.T) {
	w := causal(t)
	m := from("ann")
	m.Seen = clock.HybridAt(w.now.Add(2 * time.Minute))
	out := w.engine.Process(context.Background(), []record.Message{m})[0]
	if out.Kind != record.Rejected || !strings.Contains(out.Detail, m.Seen.String()) || !strings.Contains(out.Detail, clock.HybridAt(w.now).String()) {
		t.Errorf("%+v", out)
	}
	m.Accepted = w.now.Add(90 * time.Second) // by a machine whose clock is ahead of this one
	if out := w.engine.Process(context.Background(), []record.Message{m})[0]; out.Kind != record.Processed {
		t.Errorf("the time was in the bounds when the message was accepted: %+v", out)
	}
}
