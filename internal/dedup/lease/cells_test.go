package lease

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var errHandler = errors.New("handler failed")

// TestCells covers each cell of the tables in the public package's documentation.
func TestCells(t *testing.T) {
	cells := []struct {
		cell string
		mode mode
		test func(w *world, m mode)
	}{
		{"error: runs again at once", lazy, onError},
		{"error: runs again at once", eager, onError},
		{"error: runs again at once", leased, onError},
		{"panic: passes through, runs again at once", lazy, onPanic},
		{"panic: passes through, runs again at once", eager, onPanic},
		{"panic: passes through, runs again at once", leased, onPanic},
		{"crash before the handler: runs at once", lazy, crashBeforeLazy},
		{"crash before the handler: runs when the lease has run out", eager, crashBefore},
		{"crash before the handler: runs when the lease has run out", leased, crashBefore},
		{"crash after the handler: runs again at once", lazy, crashAfterLazy},
		{"crash after the handler: runs again when the lease has run out", eager, crashAfter},
		{"crash after the handler: runs again when the lease has run out", leased, crashAfter},
		{"two at once: both run, both give the reply of the first to store", lazy, twoAtOnceLazy},
		{"two at once: the second is told when to come again", eager, twoAtOnce},
		{"two at once: the second is told when to come again", leased, twoAtOnce},
		{"a late attempt gives the reply of the one that was faster", lazy, lateLazy},
		{"a late attempt that nobody took over completes", eager, lateAlone},
		{"a late attempt gives the reply of the one that took over", eager, lateAfter},
		{"a late attempt is fenced while the one that took over runs", eager, lateDuring},
		{"a late attempt can't release what another took over", eager, lateFailing},
		{"a late attempt that nobody took over completes", leased, lateAlone},
		{"a late attempt gives the reply of the one that took over", leased, lateAfter},
		{"a late attempt is fenced while the one that took over runs", leased, lateDuring},
		{"a late attempt can't release what another took over", leased, lateFailing},
	}
	for _, c := range cells {
		t.Run(c.mode.name+"/"+c.cell, func(t *testing.T) {
			inWorld(t, func(w *world) { c.test(w, c.mode) })
		})
	}
}

func onError(w *world, m mode) {
	if _, err := w.attempt(m, w.fails(errHandler, time.Second)); !errors.Is(err, errHandler) {
		w.t.Errorf("got %v, want the handler's error", err)
	}
	w.wantRun(m)
}

func onPanic(w *world, m mode) {
	func() {
		defer func() {
			if p := recover(); p != "boom" {
				w.t.Errorf("recovered %v, want the handler's panic", p)
			}
		}()
		_, _ = w.attempt(m, panics)
	}()
	w.wantRun(m)
}

func crashBeforeLazy(w *world, m mode) {
	w.dying(m, crashAt(1, before), w.answers("lost", 0))
	w.wantRuns(0)
	w.wantRun(m)
}

func crashBefore(w *world, m mode) {
	w.dying(m, crashAt(2, after), w.answers("lost", 0))
	w.wantRuns(0)
	w.sleepUntilLeaseEnds(m)
	w.wantRun(m)
}

func crashAfterLazy(w *world, m mode) {
	w.dying(m, crashAt(2, before), w.answers("lost", 0))
	w.wantRuns(1)
	w.wantRun(m)
}

func crashAfter(w *world, m mode) {
	w.dying(m, crashAt(3, before), w.answers("lost", 0))
	w.wantRuns(1)
	w.sleepUntilLeaseEnds(m)
	w.wantRun(m)
}

// sleepUntilLeaseEnds also checks that the message does not run before, not even by a nanosecond.
func (w *world) sleepUntilLeaseEnds(m mode) {
	w.t.Helper()
	left := remaining(w.token().Lease)
	w.wantLeased(m, left)
	pass(left - time.Nanosecond)
	w.wantLeased(m, 1)
	pass(time.Nanosecond)
}

func twoAtOnceLazy(w *world, m mode) {
	first := w.start(m, w.answers("first", time.Second))
	second := w.start(m, w.answers("second", 2*time.Second))
	if r := <-first; r.err != nil || r.Duplicate || string(r.Reply.Body) != "first" {
		w.t.Errorf("the first got %+v", r)
	}
	if r := <-second; r.err != nil || !r.Duplicate || string(r.Reply.Body) != "first" {
		w.t.Errorf("the second got %+v, want the first's reply", r)
	}
	w.wantRuns(2)
	w.wantDone(m, "first")
}

func twoAtOnce(w *world, m mode) {
	first := w.start(m, w.answers("first", 10*time.Second))
	pass(time.Second)
	w.wantLeased(m, testLease-time.Second)
	if r := <-first; r.err != nil || r.Duplicate {
		w.t.Errorf("the first got %+v", r)
	}
	w.wantDone(m, "first")
}

func lateLazy(w *world, m mode) {
	late := w.start(m, w.answers("late", time.Second))
	w.wantRun(m)
	if r := <-late; r.err != nil || !r.Duplicate || string(r.Reply.Body) != "next" {
		w.t.Errorf("the late attempt got %+v, want the other's reply", r)
	}
	w.wantDone(m, "next")
}

func lateAlone(w *world, m mode) {
	if r := <-w.startCutOff(m, w.answers("late", 2*testLease)); r.err != nil || r.Duplicate {
		w.t.Errorf("got %+v", r)
	}
	w.wantDone(m, "late")
}

func lateAfter(w *world, m mode) {
	late := w.startCutOff(m, w.answers("late", 2*testLease))
	pass(testLease)
	w.wantRun(m)
	if r := <-late; r.err != nil || !r.Duplicate || string(r.Reply.Body) != "next" {
		w.t.Errorf("the late attempt got %+v, want the other's reply", r)
	}
	w.wantDone(m, "next")
}

func lateDuring(w *world, m mode) {
	late := w.startCutOff(m, w.answers("late", testLease+10*time.Second))
	pass(testLease)
	other := w.start(m, w.answers("other", 30*time.Second))
	if r := <-late; !errors.Is(r.err, ErrFenced) {
		w.t.Errorf("the late attempt got %+v, want ErrFenced", r)
	}
	w.wantLeased(m, testLease-10*time.Second)
	if r := <-other; r.err != nil || r.Duplicate {
		w.t.Errorf("the one that took over got %+v", r)
	}
	w.wantDone(m, "other")
}

func lateFailing(w *world, m mode) {
	late := w.startCutOff(m, w.fails(errHandler, testLease+10*time.Second))
	pass(testLease)
	other := w.start(m, w.answers("other", 30*time.Second))
	if r := <-late; !errors.Is(r.err, errHandler) || !errors.Is(r.err, ErrFenced) {
		w.t.Errorf("the late attempt got %+v, want its own error and ErrFenced", r)
	}
	w.wantLeased(m, testLease-10*time.Second)
	<-other
	w.wantDone(m, "other")
}

type ending struct {
	Result
	err error
}

// start runs an attempt in the background, until it blocks.
func (w *world) start(m mode, f Func) <-chan ending { return w.startOn(w.guard(nil), m, f) }

// startCutOff is start for a process that can't reach the store from its claim until a second after
// the first lease ends.
func (w *world) startCutOff(m mode, f Func) <-chan ending {
	until := time.Now().Add(testLease + time.Second)
	return w.startOn(w.guard(func(call int) fault {
		if call > 2 && time.Now().Before(until) {
			return before
		}
		return none
	}), m, f)
}

func (w *world) startOn(g *Guard, m mode, f Func) <-chan ending {
	done := make(chan ending, 1)
	go func() {
		r, err := m.call(g, w.t.Context(), w.id, f)
		done <- ending{r, err}
	}()
	synctest.Wait()
	return done
}
