package system

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// MaxWaits is how many failures a Waiting keeps. If there are more, the newest are left out.
const MaxWaits = 10_000

// A Wait is a message or an effect that failed and will be tried again.
type Wait struct {
	Group record.GroupKey
	// ID is the message's identity, or the effect's: STREAM/GROUP/NUMBER.
	ID string
	// Destination is where the effect is sent. It is empty for a message, whose handler failed.
	Destination string
	Number      uint64 // of an effect
	// Parents are the entries of the log that the message answers, if it did not fail but waits for
	// one of them. Then Try and the fields after it are empty, and Since is when it was accepted.
	Parents []uint64
	Since   time.Time
	Try     int    // the tries so far, as counted by the queue
	Error   string // of the last try
	// Reason is [record.ReasonUnreadable] if the handler can't read the state; otherwise empty.
	Reason     record.Reason
	Status     int // of a webhook's last answer; 0 if there was none
	Last, Next time.Time
}

// Waiting registers what fails at the moment, for people who ask why a group does not move. It is
// in memory: after a restart, it is empty until the next tries fail. A nil *Waiting registers
// nothing. Its methods may be called concurrently.
type Waiting struct {
	mu    sync.Mutex
	waits map[waitKey]Wait
}

type waitKey struct {
	stream, group, id, destination string
}

func (w *Wait) key() waitKey { return waitKey{w.Group.Stream, w.Group.Group, w.ID, w.Destination} }

// NewWaiting returns an empty register.
func NewWaiting() *Waiting { return &Waiting{waits: map[waitKey]Wait{}} }

// Failed registers a failed try. If Try is 0, it was put off without a try: the last failed try
// stays, with a new time of the next one.
func (w *Waiting) Failed(x Wait) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	old, known := w.waits[x.key()]
	if known && x.Try == 0 {
		x.Try, x.Error, x.Reason, x.Status, x.Last = old.Try, old.Error, old.Reason, old.Status, old.Last
	}
	if known || len(w.waits) < MaxWaits {
		w.waits[x.key()] = x
	}
}

// Settled removes a message or an effect that no longer fails. Only Group, ID and Destination of
// its argument count.
func (w *Waiting) Settled(x Wait) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.waits, x.key())
}

// Published removes the effects of a group: nothing of it is pending.
func (w *Waiting) Published(group record.GroupKey) {
	w.remove(func(x *Wait) bool { return x.Destination != "" && x.Group == group })
}

// Expire removes the waits whose next try was due before a time and did not happen: another process
// has settled them.
func (w *Waiting) Expire(before time.Time) {
	w.remove(func(x *Wait) bool { return x.Next.Before(before) })
}

func (w *Waiting) remove(match func(*Wait) bool) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, x := range w.waits {
		if match(&x) {
			delete(w.waits, key)
		}
	}
}

// Of returns what fails in a group, effects last, by number.
func (w *Waiting) Of(group record.GroupKey) []Wait {
	return w.list(func(x *Wait) bool { return x.Group == group })
}

// All returns everything that fails, by stream and group.
func (w *Waiting) All() []Wait { return w.list(func(*Wait) bool { return true }) }

func (w *Waiting) list(match func(*Wait) bool) []Wait {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Wait
	for _, x := range w.waits {
		if match(&x) {
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(a, b Wait) int {
		return cmp.Or(cmp.Compare(a.Group.Stream, b.Group.Stream), cmp.Compare(a.Group.Group, b.Group.Group),
			cmp.Compare(a.Number, b.Number), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Destination, b.Destination))
	})
	return out
}
