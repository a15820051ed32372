package batch_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/internal/destination/batch"
)

func TestAPauseEndsWithTheContextAndNothingMoreIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := newService(true)
		s.Pause = nil
		requests := 0
		s.Put = func(context.Context, []string) ([]error, error) {
			requests++
			cancel()
			return []error{batch.Again(errAway)}, nil
		}
		start := time.Now()
		errs := s.Send(ctx, deliveries("a/1"))
		if !errors.Is(errs[0], context.Canceled) || requests != 1 || time.Since(start) > 0 {
			t.Errorf("%v after %d requests and %v", errs[0], requests, time.Since(start))
		}
	})
}

func TestSendPausesLongerBeforeEachTryAndGivesUpAfterThree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tries, sends = 3, 100
		longest := make([]time.Duration, tries+1)
		for range sends {
			s := newService(true)
			s.Pause = nil
			n, last := 0, time.Now()
			s.Put = func(context.Context, []string) ([]error, error) {
				n++
				longest[n] = max(longest[n], time.Since(last))
				last = time.Now()
				return []error{batch.Again(errAway)}, nil
			}
			s.Send(t.Context(), deliveries("a/1"))
			if n != tries {
				t.Fatalf("%d tries, want %d", n, tries)
			}
		}
		for n, limit := range map[int]time.Duration{2: 100 * time.Millisecond, 3: 200 * time.Millisecond} {
			if longest[n] >= limit || longest[n] < limit/2 {
				t.Errorf("the longest of %d pauses before try %d was %v, want up to %v", sends, n, longest[n], limit)
			}
		}
	})
}
