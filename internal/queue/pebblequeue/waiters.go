package pebblequeue

import (
	"slices"
	"time"
)

// waiters are the receivers that wait for a message, the longest waiting one first, and the alarm for the next hidden message. Its user holds the queue's lock.
type waiters struct {
	waiting []chan struct{}
	timer   *time.Timer
	due     int64 // what the timer is set for, 0 when it is not set
	ring    func()
}

func (w *waiters) join() chan struct{} {
	c := make(chan struct{}, 1)
	w.waiting = append(w.waiting, c)
	return c
}

// leave reports false when the waiter has been woken meanwhile: it then must take, or wake another.
func (w *waiters) leave(c chan struct{}) bool {
	i := slices.Index(w.waiting, c)
	if i < 0 {
		return false
	}
	w.waiting = slices.Delete(w.waiting, i, i+1)
	return true
}

// wake wakes one; who finds more than it takes wakes the next, so that a single message does not wake everybody.
func (w *waiters) wake() {
	if len(w.waiting) == 0 {
		return
	}
	w.waiting[0] <- struct{}{}
	w.waiting = slices.Delete(w.waiting, 0, 1)
}

// alarm rings when due has come.
func (w *waiters) alarm(due, now int64) {
	if w.due != 0 && w.due <= due {
		return
	}
	w.due = due
	// Never at once: a clock that stands still must not make the alarm spin.
	after := max(time.Duration(due-now), time.Millisecond)
	if w.timer == nil {
		w.timer = time.AfterFunc(after, w.ring)
		return
	}
	w.timer.Reset(after)
}

func (w *waiters) rung() { w.due = 0 }

func (w *waiters) close() {
	if w.timer != nil {
		w.timer.Stop()
	}
	for len(w.waiting) > 0 {
		w.wake()
	}
}
