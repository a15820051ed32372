package webhook

import (
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// A breaker keeps requests away from a destination that is failing, so that whoever sends does not wait for it: other destinations have the same
// senders. Between pauses one request is let through, a probe. Any success ends the failing.
type breaker struct {
	now func() time.Time

	mu       sync.Mutex
	pauses   *backoff.ExponentialBackOff // between probes; nil where the destination is not failing
	next     time.Time                   // when the next probe may go
	probing  bool                        // a probe is under way; it may outlast the failing that it was for
	answered time.Time                   // the last success
}

// Why nothing was sent.
var (
	errProbing = errors.New("destination is failing; another request is probing it")
	errPausing = errors.New("destination is failing; it is left alone until the next probe")
)

// newPauses are of 0.5 s, then twice as long each time up to 30 s, give or take half.
func newPauses() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval: 500 * time.Millisecond, Multiplier: 2, RandomizationFactor: 0.5, MaxInterval: 30 * time.Second,
	}
}

// admit lets every request pass, or, where the destination is failing, one that is a probe; [breaker.probed] must follow that one.
// The silence is for how long the destination asked to be left alone.
func (b *breaker) admit(silence time.Duration) (probe bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.pauses == nil:
		return false, nil
	case b.probing:
		return false, errProbing
	case silence > 0 || b.now().Before(b.next):
		return false, errPausing
	}
	b.probing = true
	return true, nil
}

// failing reports whether only probes pass.
func (b *breaker) failing() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pauses != nil
}

// failed begins the failing: a delivery failed, tried since then for as long as it could. A destination that took something in the meantime is not
// failing: what it does not take is that delivery, which holds up its own group only.
func (b *breaker) failed(since time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pauses != nil || b.answered.After(since) {
		return
	}
	b.pauses = newPauses()
	b.next = b.now().Add(b.pauses.NextBackOff())
}

// probed ends a probe. If there was no success, the next pause begins.
func (b *breaker) probed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
	if b.pauses != nil {
		b.next = b.now().Add(b.pauses.NextBackOff())
	}
}

// succeeded ends the failing.
func (b *breaker) succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pauses = nil
	b.answered = b.now()
}
