package backoff_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/internal/backoff"
)

func TestFullIsRandomBelowALimitThatDoublesUpToMost(t *testing.T) {
	const first, most = 100 * time.Millisecond, 3200 * time.Millisecond
	limit := first
	for n := 1; n <= 9; n++ {
		longest := time.Duration(0)
		for range 100 {
			longest = max(longest, backoff.Full(n, first, most))
		}
		if longest >= limit || longest < limit/2 {
			t.Errorf("the longest of 100 pauses after try %d was %v, want up to %v", n, longest, limit)
		}
		limit = min(2*limit, most)
	}
}

func TestFullNeverExceedsMostAfterAnyNumberOfTries(t *testing.T) {
	for _, n := range []int{0, 63, 64, 65, math.MaxInt} {
		if d := backoff.Full(n, time.Second, time.Hour); d < 0 || d >= time.Hour {
			t.Errorf("after %d tries: %v", n, d)
		}
	}
	if d := backoff.Full(1, time.Hour, time.Second); d >= time.Second {
		t.Errorf("first above most: %v", d)
	}
}

func TestSleepReturnsTheCauseIfTheContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, cause := time.Now(), errors.New("stop")
		if err := backoff.Sleep(t.Context(), time.Second); err != nil || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		if err := backoff.Sleep(ctx, time.Hour); !errors.Is(err, cause) || time.Since(start) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}
