package webhook

import (
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/effectively-once/once/internal/record"
)

// A breaker is a circuit breaker: it rejects requests to a failing destination, so that a publisher
// does not wait for it while it has effects for other destinations. Between pauses it admits one
// request, a probe. Any success closes it.
type breaker struct {
	now func() time.Time

	mu     sync.Mutex
	pauses *backoff.ExponentialBackOff // between probes; nil if the destination is not failing
	next   time.Time                   // the time of the next probe
	// a probe is in progress; it may still be after the failure has ended
	probing  bool
	answered time.Time // the time of the last success
}

// The errors of deliveries that were not sent.
var (
	errProbing = fmt.Errorf("%w: destination is failing; another request is probing it", record.ErrUntried)
	errPausing = fmt.Errorf("%w: destination is failing; no request is sent until the next probe", record.ErrUntried)
)

// newPauses returns pauses of 0.5 s, then twice as long each time up to 30 s, plus or minus half.
func newPauses() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval: 500 * time.Millisecond, Multiplier: 2, RandomizationFactor: 0.5, MaxInterval: 30 * time.Second,
	}
}

// admit returns an error if a request must not be sent. While the destination is failing, it admits
// one probe at a time; after a probe the caller must call [breaker.probed]. silence is how long the
// destination asked for no requests, by Retry-After.
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

// failing reports whether only probes are admitted.
func (b *breaker) failing() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pauses != nil
}

// failed opens the breaker: a delivery failed in all its tries since then. If the destination
// accepted another delivery in the meantime, it is not failing: then only this delivery is
// rejected, which blocks its own group only.
func (b *breaker) failed(since time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pauses != nil || b.answered.After(since) {
		return
	}
	b.pauses = newPauses()
	b.next = b.now().Add(b.pauses.NextBackOff())
}

// probed ends a probe. Unless it succeeded, the next pause begins.
func (b *breaker) probed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.probing = false
	if b.pauses != nil {
		b.next = b.now().Add(b.pauses.NextBackOff())
	}
}

// succeeded closes the breaker.
func (b *breaker) succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pauses = nil
	b.answered = b.now()
}
