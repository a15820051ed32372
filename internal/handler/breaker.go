package handler

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/effectively-once/once/internal/record"
)

// opensAfter is how many calls in a row have to fail before the breaker opens.
const opensAfter = 5

// A breaker is a circuit breaker: while a handler is down, it rejects calls, so that messages do
// not wait for timeouts and the handler is not flooded when it starts again. Between pauses it
// admits one call, a probe. A call that gets any answer from the handler closes it.
//
// It counts calls that got no answer of a handler. An error in the handler's own words is an
// answer: a message that always fails must not delay the others.
type breaker struct {
	now     func() time.Time
	log     *slog.Logger
	longest time.Duration // of the pauses

	mu      sync.Mutex
	failed  int   // calls in a row
	last    error // of the last failed call
	pauses  *backoff.ExponentialBackOff
	next    time.Time // the time of the next probe; zero while the breaker is closed
	probing bool
}

// newPauses returns pauses of 0.5 s, then twice as long each time up to a longest one, plus or
// minus half.
func newPauses(longest time.Duration) *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval: 500 * time.Millisecond, Multiplier: 2, RandomizationFactor: 0.5, MaxInterval: longest,
	}
}

// jitter spreads the calls that are rejected over this time after the next probe.
const jitter = time.Second

// rejects returns an error if a call must not be made now.
func (b *breaker) rejects() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rejection()
}

// rejection is rejects for a caller that holds mu.
func (b *breaker) rejection() error {
	now := b.now()
	if b.next.IsZero() || !b.probing && !now.Before(b.next) {
		return nil
	}
	at, when := b.next, "it is called again at "+b.next.UTC().Format(time.RFC3339)
	if b.probing {
		at, when = now, "another message is trying it"
	}
	return &record.LaterError{
		At:  at.Add(time.Duration(1 + rand.Int64N(int64(jitter)))), //nolint:gosec // not a secret
		Err: fmt.Errorf("%w: the handler is failing: %s. The last error: %w", record.ErrUntried, when, b.last),
	}
}

// admit returns an error if a call must not be made. If it returns nil, the caller must call
// [breaker.done].
func (b *breaker) admit() (probe bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.rejection(); err != nil {
		return false, err
	}
	b.probing = !b.next.IsZero()
	return b.probing, nil
}

// A verdict is the state of a handler, as a call shows it.
type verdict uint8

const (
	alive   verdict = iota // it answered
	down                   // it did not
	unknown                // the caller stopped waiting
)

// done ends an admitted call, which had an error if the handler is down.
func (b *breaker) done(probe bool, v verdict, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if probe {
		b.probing = false
	}
	switch v {
	case alive:
		if !b.next.IsZero() {
			b.log.Info("handler answers again")
		}
		b.failed, b.last, b.pauses, b.next = 0, nil, nil, time.Time{}
	case down:
		b.failed++
		b.last = err
		b.pause(probe)
	case unknown:
	}
}

// pause begins a pause after a failed call, if it is a probe or one call too many. Other calls that
// fail while the breaker is open began before.
func (b *breaker) pause(probe bool) {
	closed := b.next.IsZero()
	if closed && b.failed < opensAfter || !closed && !probe {
		return
	}
	if closed {
		b.pauses = newPauses(b.longest)
		b.log.Warn("handler is failing: its messages wait, and one of them tries it now and then", "failures", b.failed, "error", b.last)
	}
	b.next = b.now().Add(b.pauses.NextBackOff())
}
