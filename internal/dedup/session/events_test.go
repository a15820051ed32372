package session_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/record"
)

// observed are the events and the lines of the log of sessions.
type observed struct {
	events []string
	log    bytes.Buffer
}

func (o *observed) config() session.Config {
	return session.Config{
		Enqueue: (&ender{}).Enqueue, Queues: &queues{}, Retain: map[string]time.Duration{stream: time.Hour, "orders": time.Hour},
		Observe: func(e record.Event) { o.events = append(o.events, fmt.Sprintf("%s %s %d", e.Name, e.Stream, e.Count)) },
		Log: slog.New(slog.NewTextHandler(&o.log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})),
	}
}

// took returns the events and the lines since the last call.
func (o *observed) took() (events []string, lines string) {
	events, lines = o.events, o.log.String()
	o.events = nil
	o.log.Reset()
	return events, lines
}

// told fails the test unless these events happened, and the log has each of the texts.
func (w *world) told(o *observed, events []string, texts ...string) {
	w.Helper()
	got, lines := o.took()
	if !slices.Equal(got, events) {
		w.Errorf("got events %q, want %q", got, events)
	}
	if len(texts) == 0 && lines != "" {
		w.Errorf("the log has %s", lines)
	}
	for _, text := range texts {
		if !strings.Contains(lines, text) {
			w.Errorf("the log has no %q: %s", text, lines)
		}
	}
}

func TestATakeoverIsAnEvent(t *testing.T) {
	o := &observed{}
	each(t, o.config(), session.Pool{}, func(w *world) {
		for _, id := range []session.ID{ann, roomAnn} {
			_, err := w.Open(w.Context(), id, session.Opening{Holder: "one"})
			w.noError(err)
			w.told(o, nil)
			_, err = w.Open(w.Context(), id, session.Opening{Holder: "two", Take: session.TakeNow})
			w.noError(err)
			w.told(o, []string{"takeover " + id.Stream + " 1"}, `level=INFO msg="session taken over" stream=`+id.Stream, "session=ann from=one holder=two")
		}
	})
}

func TestAnEntryThatStopsItsConsumerIsAnEventOnce(t *testing.T) {
	o := &observed{}
	each(t, o.config(), session.Pool{Attempts: 2}, func(w *world) {
		w.fill(0, 1)
		f := w.open(ann, session.TakeFree).Fence
		w.read(ann, f, 1)
		fail := func(try uint64) {
			w.Helper()
			_, err := w.Fail(w.Context(), ann, session.Failure{Fence: f, At: 1, Try: try})
			w.noError(err)
		}
		fail(1)
		w.told(o, nil)
		fail(2)
		w.told(o, []string{"stopped work 1"}, `level=WARN msg="session stopped: an entry has failed too often" stream=work session=ann number=1`)
		fail(2)
		w.told(o, nil)
	})
}

func TestADeadLetterStopsNobody(t *testing.T) {
	o := &observed{}
	each(t, o.config(), session.Pool{Attempts: 1, DeadLetter: true}, func(w *world) {
		w.fill(0, 1)
		f := w.open(ann, session.TakeFree).Fence
		w.read(ann, f, 1)
		_, err := w.Fail(w.Context(), ann, session.Failure{Fence: f, At: 1, Try: 1})
		w.noError(err)
		w.told(o, nil)
	})
}

func TestAnEndThatWaitsForSessionsIsAnEventEachMinute(t *testing.T) {
	o := &observed{}
	each(t, o.config(), session.Pool{Window: 1}, func(w *world) {
		w.fill(0, 2)
		a, b := w.open(ann, session.TakeFree).Fence, w.open(bob, session.TakeFree).Fence
		w.read(ann, a, 1)
		w.read(bob, b, 1)
		w.noError(w.EndStream(w.Context(), stream))
		w.noError(w.SweepEnds(w.Context()))
		w.told(o, nil) // the end is not in the log yet
		w.end(0)
		for range 3 {
			w.noError(w.SweepEnds(w.Context()))
		}
		w.told(o, []string{"end-waits work 2"}, `level=WARN msg="the end of a stream waits for a session" stream=work session=ann cursor=0 last=1`)
		w.commit(ann, a, 0, 1)
		w.now = w.now.Add(time.Minute)
		w.noError(w.SweepEnds(w.Context()))
		w.told(o, []string{"end-waits work 1"}, "session=bob")
		w.commit(bob, b, 0, 1)
		w.now = w.now.Add(time.Minute)
		w.noError(w.SweepEnds(w.Context()))
		w.told(o, nil)
		w.is(w.read(bob, b, 1), " 2:end END")
	})
}

// The end of a stream is complete when the pool has ended and nothing unread is left. Then it costs
// nothing any more.
func TestACompleteEndIsNotSweptAgain(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		store := w.counted((&observed{}).config())
		w.fill(0, 1)
		f := w.open(ann, session.TakeFree).Fence
		w.read(ann, f, 1)
		w.noError(w.EndStream(w.Context(), stream))
		w.end(0)
		sweep := func() int64 {
			w.Helper()
			store.reset()
			w.noError(w.SweepEnds(w.Context()))
			reads, _ := store.reset()
			return reads
		}
		if sweep() == 0 {
			w.Error("an end that waits for a session is not swept")
		}
		w.commit(ann, f, 0, 1)
		sweep()
		sweep()
		if n := sweep(); n != 0 {
			w.Errorf("a complete end costs %d reads", n)
		}
		w.is(w.read(ann, f, 1), " 2:end END")
		zero := uint64(0) // the consumer's store was restored
		q := &queues{}
		cfg := (&observed{}).config()
		cfg.Queues = q
		w.noError(w.with(w.store, cfg).Retire(w.Context(), ann, session.Retirement{Fence: f, Cursor: &zero}))
		if len(q.letters) != 1 {
			w.Errorf("%d letters for what was returned after the end", len(q.letters))
		}
	})
}

func TestUnreadEntriesThatHaveWaitedForHalfOfTheirTimeAreAnEvent(t *testing.T) {
	o := &observed{}
	each(t, o.config(), session.Pool{Partitions: 3, Window: 2}, func(w *world) {
		late := func() {
			w.Helper()
			w.noError(w.Late(w.Context()))
		}
		late()
		w.fill(0, 1) // processed
		w.fill(1, 1) // dealt
		f := w.open(ann, session.TakeFree).Fence
		w.read(ann, f, 2)
		w.fill(2, 1) // not dealt
		w.commit(ann, f, 0, 1)
		w.now = w.now.Add(30 * time.Minute)
		late()
		w.told(o, nil)
		w.now = w.now.Add(time.Second)
		late()
		w.told(o, []string{"unread-late work 2"}, "level=WARN", "stream=work")
		w.now = w.now.Add(time.Hour) // they have expired
		late()
		w.told(o, []string{"unread-late work 2"}, "level=WARN")
		w.commit(ann, f, 1, 2)
		b := w.open(bob, session.TakeFree).Fence
		_, err := w.Read(w.Context(), bob, session.Reading{Fence: b, Limit: 1})
		w.expired(err)
		w.retire(bob, b)
		late()
		w.told(o, []string{"unread-late work 1"}, "level=WARN") // it was returned
	})
}

func TestAnUnreadEntryOfTheLogOfAGroupIsAnEventToo(t *testing.T) {
	o := &observed{}
	each(t, o.config(), session.Pool{}, func(w *world) {
		key := session.Key(roomAnn)
		w.append(room, "a")
		f := w.open(roomAnn, session.TakeFree).Fence
		w.now = w.now.Add(31 * time.Minute)
		w.append(room, "b")
		w.noError(w.Sweep(w.Context(), key))
		w.told(o, []string{"unread-late orders 1"}, "level=WARN", "stream=orders", "session=ann")
		w.commit(roomAnn, f, 0, 1)
		w.noError(w.Sweep(w.Context(), key))
		w.told(o, nil)
		w.now = w.now.Add(31 * time.Minute)
		w.retire(roomAnn, f)
		w.noError(w.Sweep(w.Context(), key))
		w.told(o, nil)
	})
}

func TestAListReadsThePoolOnce(t *testing.T) {
	for name, records := range map[string]bool{"with a lister": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			each(t, session.Config{}, session.Pool{Window: 1}, func(w *world) {
				store := w.counted(session.Config{})
				if records {
					store = w.counted(session.Config{Records: w.store.(*counting).Store.(record.Lister).Groups})
				}
				const sessions = 20
				w.fill(0, sessions)
				for i := range sessions {
					id := session.ID{Stream: stream, Name: fmt.Sprintf("s%02d", i)}
					w.read(id, w.open(id, session.TakeFree).Fence, 1)
				}
				store.pools.Store(0)
				out, err := w.List(w.Context(), stream, "", "s04", 10)
				w.noError(err)
				if n := store.pools.Load(); len(out.Sessions) != 10 || out.Next != "s14" || n != 1 {
					w.Errorf("%d sessions up to %q, the pool was read %d times", len(out.Sessions), out.Next, n)
				}
				if x := out.Sessions[0]; x.ID.Name != "s05" || x.Holder != "of s05" || len(x.Parts) != 1 {
					w.Errorf("got %+v", x)
				}
				_, err = w.List(w.Context(), "orders", "room", "", 10)
				if (err == nil) != records {
					w.Errorf("the sessions of a log: %v", err)
				}
			})
		})
	}
}

func TestTheProcessedPartOfARangeIsNotLate(t *testing.T) {
	o := &observed{}
	each(t, o.config(), session.Pool{}, func(w *world) {
		w.fill(0, 1)
		w.now = w.now.Add(31 * time.Minute)
		w.fill(0, 1)
		f := w.open(ann, session.TakeFree).Fence
		w.read(ann, f, 2)
		w.noError(w.Late(w.Context()))
		w.told(o, []string{"unread-late work 1"}, "stream=work")
		w.commit(ann, f, 0, 1)
		w.noError(w.Late(w.Context()))
		w.told(o, nil)
	})
}
