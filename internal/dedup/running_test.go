package dedup_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/record"
)

// putOff reports whether an outcome says that the message was not tried and when it is to be tried.
func (l *lab) putOff(o record.Outcome) bool {
	at, only := record.NextTry(o.Err)
	return o.Kind == record.Retry && errors.Is(o.Err, record.ErrUntried) && only && at.After(l.clock())
}

// While a handler runs, another call of the process leaves the messages of its group for later:
// copies, other messages, one-time requests and visits. Other groups are not affected.
func TestNoOtherAttemptOfAGroupBeginsWhileOneRuns(t *testing.T) {
	for name, stream := range map[string]record.Stream{"with a record": byKey, "by number": bySequence, "without a record": relay} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t)
				running, release := &admission.Running{}, make(chan struct{})
				w := l.workerOf(dedup.Config{Streams: []record.Stream{stream}, Running: running})
				batch := keyed("a", "b")
				if stream.Admission == record.BySequence {
					batch = numbered("1", "2")
				}
				l.scripts[batch[0].Identity()] = func(_ context.Context, _ *record.Attempt, m record.Message) error {
					if m.Group != "h" {
						<-release
					}
					return nil
				}
				first := make(chan record.Outcome, 1)
				go func() {
					o, _ := w.Direct(t.Context(), time.Time{}, batch[0])
					first <- o
				}()
				synctest.Wait()
				next := l.workerOf(dedup.Config{Streams: []record.Stream{stream}, Running: running}) // after a reload
				other := keyed("c")
				other[0].Group = "h"
				if stream.Admission == record.BySequence {
					other = numbered("1")
					other[0].Group = "h"
				}
				out := next.Process(t.Context(), append([]record.Message{batch[0]}, other...))
				if !l.putOff(out[0]) || out[1].Kind != record.Processed {
					t.Errorf("a copy: %+v; another group: %+v", out[0], out[1])
				}
				if !stream.Stateless {
					if out := next.DirectAll(t.Context(), time.Time{}, batch[1:]); !l.putOff(out[0]) {
						t.Errorf("the next message: %+v", out[0])
					}
					if err := next.CloseGaps(t.Context(), batch[0].GroupKey()); err != nil {
						t.Errorf("a visit: %v", err)
					}
				}
				close(release)
				if o := <-first; o.Kind != record.Processed {
					t.Errorf("%+v", o)
				}
				synctest.Wait()
				same(t, "fates", next.process(batch...), []string{"duplicate", "processed"})
			})
		})
	}
}

// A call that ends soon is waited for.
func TestAGroupIsProcessedAsSoonAsItIsFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		w := l.worker(byKey)
		l.scripts["a"] = func(context.Context, *record.Attempt, record.Message) error {
			time.Sleep(10 * time.Millisecond)
			return nil
		}
		go w.process(keyed("a")...)
		synctest.Wait()
		begun := time.Now()
		same(t, "fates", w.process(keyed("b", "c")...), []string{"processed", "processed"})
		if waited := time.Since(begun); waited != 10*time.Millisecond {
			t.Errorf("waited for %v", waited)
		}
	})
}

// A group whose handler hangs keeps no other group of its batch in use.
func TestAGroupIsFreeWhenItIsCommittedThoughItsBatchIsNotDone(t *testing.T) {
	for _, together := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t)
			l.commitsTogether = together
			w := l.worker(byKey)
			release := make(chan struct{})
			l.scripts["b"] = func(context.Context, *record.Attempt, record.Message) error { <-release; return nil }
			batch := keyed("a", "b", "c")
			batch[0].Group, batch[2].Group = "h", "i"
			done := make(chan []string)
			go func() { done <- w.process(batch...) }()
			time.Sleep(time.Second)
			same(t, "fates of the others", w.process(batch[0], batch[2]), []string{"duplicate", "duplicate"})
			close(release)
			same(t, "fates", <-done, []string{"processed", "processed", "processed"})
		})
	}
}

// What has run when no further handler may start is committed, and is not run again.
func TestHandlersThatRunWhenNoFurtherOneStartsAreCommitted(t *testing.T) {
	for name, c := range map[string]struct {
		batched bool
		stream  record.Stream
		want    []string
	}{
		"one by one":       {false, byKey, []string{"retry", "retry"}}, // the first is committed nevertheless
		"with one call":    {true, byKey, []string{"processed", "processed"}},
		"without a record": {false, relay, []string{"processed", "retry"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.batched = c.batched
			w := l.worker(c.stream)
			runs := 0
			l.scripts["a"] = func(context.Context, *record.Attempt, record.Message) error {
				runs++
				l.pass(3 * time.Second)
				return nil
			}
			batch := keyed("a", "b")
			out := w.DirectAll(t.Context(), l.clock().Add(2*time.Second), batch)
			same(t, "fates", fates(out), c.want)
			if out[1].Kind == record.Retry && !errors.Is(out[1].Err, context.DeadlineExceeded) {
				t.Error(out[1].Err)
			}
			w.process(batch...)
			same(t, "runs", runs, 1)
		})
	}
}
