package follow

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// ErrClosed is the error of Wait when the process is about to end.
var ErrClosed = errors.New("not followed any more: the system is ending")

// lookAgain is how long a reader waits at most before it looks again. Only a commit whose result is
// unknown needs it: the hub is not told of its entries.
const lookAgain = 5 * time.Second

// A Follower waits for appends to the log of one group. Its methods are for one goroutine.
type Follower interface {
	// Wait returns nil when it is worth reading again: entries may have been appended since Follow,
	// or since Wait returned last. Otherwise it returns the context's error, or [ErrClosed].
	Wait(ctx context.Context) error
	// Close ends following.
	Close()
}

// A Hub wakes the readers of a group when entries are appended to its log. It is for one process
// that has the store for itself. The zero value is ready. Its methods may be called concurrently.
type Hub struct {
	// LookAgain is how long Wait takes at most. Defaults to 5 s, give or take a fifth.
	LookAgain time.Duration

	mu     sync.Mutex
	topics map[record.GroupKey]*topic
	dirty  []*topic // to be woken
	waking bool     // a goroutine wakes the topics in dirty
	closed bool

	changes changes
}

// A topic is a group that somebody follows, or a whole stream if the group has no name.
type topic struct {
	key       record.GroupKey
	followers int
	appended  chan struct{} // closed at the next append, and then replaced
	dirty     bool          // it is in Hub.dirty
}

// Appended wakes the followers of a group. It does not wait for them, nor wake them itself: that
// takes time with many of them, and the caller is the writer.
func (h *Hub) Appended(key record.GroupKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changes.add(key)
	h.touch(h.topics[key])
	h.touch(h.topics[record.GroupKey{Stream: key.Stream}])
}

// touch makes the followers of a topic, which may be nil, wake.
func (h *Hub) touch(t *topic) {
	if t == nil || t.dirty {
		return
	}
	t.dirty = true
	h.dirty = append(h.dirty, t)
	if !h.waking {
		h.waking = true
		go h.wake()
	}
}

// wake wakes the followers of the topics in dirty until there is none.
func (h *Hub) wake() {
	for {
		h.mu.Lock()
		woken := make([]chan struct{}, 0, len(h.dirty))
		for _, t := range h.dirty {
			woken = append(woken, t.appended)
			t.dirty, t.appended = false, make(chan struct{})
		}
		h.dirty = h.dirty[:0]
		h.waking = len(woken) > 0
		h.mu.Unlock()
		if len(woken) == 0 {
			return
		}
		for _, c := range woken {
			close(c)
		}
	}
}

// Close makes Wait return ErrClosed, to all followers from now on.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, t := range h.topics {
		if !t.dirty {
			t.dirty = true
			h.dirty = append(h.dirty, t)
		}
	}
	if !h.waking {
		h.waking = true
		go h.wake()
	}
}

// Follow returns a follower of a group.
func (h *Hub) Follow(key record.GroupKey) Follower {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[key]
	if t == nil {
		if h.topics == nil {
			h.topics = map[record.GroupKey]*topic{}
		}
		t = &topic{key: key, appended: make(chan struct{})}
		h.topics[key] = t
	}
	t.followers++
	return &follower{hub: h, topic: t, appended: t.appended}
}

// Followers returns how many followers there are.
func (h *Hub) Followers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, t := range h.topics {
		n += t.followers
	}
	return n
}

type follower struct {
	hub      *Hub
	topic    *topic
	appended chan struct{} // of the time when the follower began to read
}

// Wait implements Follower.
func (f *follower) Wait(ctx context.Context) error {
	if !f.hub.open() {
		return ErrClosed
	}
	again := cmp.Or(f.hub.LookAgain, lookAgain)
	timer := time.NewTimer(again*4/5 + rand.N(again*2/5+1)) //nolint:gosec // nobody gains from guessing it
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-f.appended:
	case <-timer.C:
	}
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	if f.hub.closed {
		return ErrClosed
	}
	f.appended = f.topic.appended
	return nil
}

func (h *Hub) open() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.closed
}

// Close implements Follower.
func (f *follower) Close() {
	h := f.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.topic.followers--; f.topic.followers == 0 {
		delete(h.topics, f.topic.key)
	}
}
