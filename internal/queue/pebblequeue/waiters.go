package pebblequeue

import (
	"slices"
	"time"
)

// waiters are the waiting receivers, the longest waiting one first, and the alarm for the next
// hidden message. The caller holds the queue's lock.
type waiters struct {
	waiting []chan struct{}
	timer   *time.Timer
	due     int64 // the time for which the timer is set, or 0
	ring    func()
}

func (w *waiters) join() chan struct{} {
	c := make(chan struct{}, 1)
	w.waiting = append(w.waiting, c)
	return c
}

// leave removes a waiter. It returns false if the waiter has been woken meanwhile: then it must
// receive, or wake another one.
func (w *waiters) leave(c chan struct{}) bool {
	i := slices.Index(w.waiting, c)
	if i < 0 {
		return false
	}
	w.waiting = slices.Delete(w.waiting, i, i+1)
	return true
}

// wake wakes one receiver. If there are more messages than it takes, it wakes the next one, so that
// a single message does not wake all.
func (w *waiters) wake() {
	if len(w.waiting) == 0 {
		return
	}
	w.waiting[0] <- struct{}{}
	w.waiting = slices.Delete(w.waiting, 0, 1)
}

// alarm calls ring when due has come.
func (w *waiters) alarm(due, now int64) {
	if w.due != 0 && w.due <= due {
		return
	}
	w.due = due
	// At least a millisecond, so that a clock that stands still does not make the alarm spin.
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
