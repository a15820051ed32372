// Package backoff computes and waits out the pauses between the tries of one operation.
//
// It is for loops that decide themselves whether to try again. Callers that only repeat a function
// until it succeeds use github.com/cenkalti/backoff.
package backoff

import (
	"context"
	"math/rand/v2"
	"time"
)

// Full returns a random pause before try n+1, for n from 1: at most first after the first try,
// doubled after each later one, and at most most ("full jitter"). Callers that collided, and so
// failed at the same moment, do not collide again.
func Full(n int, first, most time.Duration) time.Duration {
	return FullOf(rand.Int64N, n, first, most) // jitter, not a secret
}

// FullOf is Full with a source of random numbers: random returns one in [0, n).
func FullOf(random func(n int64) int64, n int, first, most time.Duration) time.Duration {
	limit := first
	for ; n > 1 && limit < most; n-- {
		limit *= 2
	}
	return time.Duration(random(int64(min(limit, most))))
}

// Sleep waits for d. It returns the context's cause if the context ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
