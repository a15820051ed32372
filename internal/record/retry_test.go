package record

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestAPauseGrowsUpToItsMaximumAndIsNeverLessThanHalfOfTheFirst(t *testing.T) {
	r := RetryPolicy{First: time.Second, Max: 5 * time.Minute, For: 24 * time.Hour}
	least, most := func(int64) int64 { return 0 }, func(n int64) int64 { return n - 1 }
	for try, want := range map[int]time.Duration{0: time.Second, 1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second, 9: 256 * time.Second, 10: 5 * time.Minute, 1 << 40: 5 * time.Minute} {
		if got := r.Pause(try, most); got != want {
			t.Errorf("after try %d: at most %v, want %v", try, got, want)
		}
		if got := r.Pause(try, least); got != time.Second/2 {
			t.Errorf("after try %d: at least %v", try, got)
		}
	}
	if got := (RetryPolicy{First: time.Second, Max: time.Second}).Pause(3, most); got != time.Second {
		t.Errorf("a constant pause is %v", got)
	}
}

func TestAPolicyDoesNotReachTheLimitOfItsQueueInItsTime(t *testing.T) {
	for _, r := range []RetryPolicy{MessageRetry(), EffectRetry(), {First: time.Second, Max: time.Second, For: time.Hour}, {First: time.Minute, Max: time.Hour, For: 24 * time.Hour}} {
		source := rand.New(rand.NewPCG(1, 2))
		for range 200 {
			tries, at := 0, time.Duration(0)
			for at < r.For {
				tries++
				at += r.Pause(tries, source.Int64N)
			}
			if tries > r.Tries() {
				t.Fatalf("%+v: %d tries, the limit is %d", r, tries, r.Tries())
			}
		}
	}
}

func TestAPolicyTakesTheDefaultsOfTheFieldsThatItLeavesOut(t *testing.T) {
	if got := (RetryPolicy{For: time.Hour}).Or(MessageRetry()); got != (RetryPolicy{time.Second, 5 * time.Minute, time.Hour}) {
		t.Errorf("%+v", got)
	}
	if got := (RetryPolicy{First: time.Hour}).Or(MessageRetry()); got.Max != time.Hour {
		t.Errorf("the longest pause is %v, less than the first", got.Max)
	}
}
