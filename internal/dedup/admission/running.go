package admission

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/record"
)

const (
	// turnPatience is how long a call waits for another call of this process that works on the same
	// group. Most handlers take less.
	turnPatience = 100 * time.Millisecond
	// maxTurnPause bounds the pause of a message whose group is in use.
	maxTurnPause = 5 * time.Second
)

// Running holds what the calls of this process work on, so that no second attempt of a message, and
// no other attempt of its group, begins while one runs. A caller may have its answer before an
// attempt ends, and a handler may ignore the end of its context. Engines that follow one another in
// a process share it. Other processes are kept out by the conditions of the commits.
type Running struct {
	Groups   Turns[record.GroupKey]
	Messages Turns[record.TokenKey] // of streams without group records
}

// Turns are the keys that are in use. The zero value has none.
type Turns[K comparable] struct {
	mu   sync.Mutex
	used map[K]turn
}

type turn struct {
	since time.Time
	ended chan struct{} // made by the first call that waits
}

// Take takes the turn of a key. It returns false if another call has it.
func (t *Turns[K]) Take(key K, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, used := t.used[key]; used {
		return false
	}
	if t.used == nil {
		t.used = map[K]turn{}
	}
	t.used[key] = turn{since: now}
	return true
}

// Wait takes the turn of a key when the call that has it ends. If that takes long, it returns a
// [*record.LaterError] that wraps [record.ErrUntried]: the message is tried again after about as
// long as the other attempt has been running, at most after 5 s.
func (t *Turns[K]) Wait(ctx context.Context, key K, now func() time.Time) error {
	patience := time.NewTimer(turnPatience)
	defer patience.Stop()
	for !t.Take(key, now()) {
		since, ended := t.watch(key)
		select {
		case <-ended:
			continue
		case <-patience.C:
		case <-ctx.Done():
		}
		return later(now(), since)
	}
	return nil
}

// Busy returns the error of [Turns.Wait] for a key whose turn another call has, without waiting.
func (t *Turns[K]) Busy(key K, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	since := now
	if at, used := t.used[key]; used {
		since = at.since
	}
	return later(now, since)
}

func later(now, since time.Time) error {
	return &record.LaterError{
		At:  now.Add(min(max(now.Sub(since), turnPatience), maxTurnPause)),
		Err: fmt.Errorf("%w: an earlier attempt is still running", record.ErrUntried),
	}
}

// watch returns since when a key is in use, and a channel that is closed when that ends.
func (t *Turns[K]) watch(key K) (since time.Time, ended <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, used := t.used[key]
	if at.ended == nil {
		if at.ended = make(chan struct{}); used {
			t.used[key] = at
		} else {
			close(at.ended)
		}
	}
	return at.since, at.ended
}

// End ends the turn of a key.
func (t *Turns[K]) End(key K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ended := t.used[key].ended; ended != nil {
		close(ended)
	}
	delete(t.used, key)
}
