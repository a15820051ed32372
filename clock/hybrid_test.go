package clock_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/effectively-once/once/clock"
)

// at returns a wall clock time in milliseconds since 1970.
func at(ms int64) time.Time { return time.UnixMilli(ms) }

// hybrid returns the clock of a time in milliseconds and a counter.
func hybrid(ms int64, counter uint16) clock.Hybrid {
	return clock.HybridAt(at(ms)) | clock.Hybrid(counter)
}

// TestAHybridClockFollowsTheHistoryOfCockroachDB plays TestHLCClock of
// github.com/cockroachdb/cockroach, pkg/util/hlc/hlc_test.go. That test reads the clock before each
// receive, which is an event too.
func TestAHybridClockFollowsTheHistoryOfCockroachDB(t *testing.T) {
	var now clock.Hybrid
	for i, step := range []struct {
		wall     int64
		received clock.Hybrid // 0 if the event is a send
		want     clock.Hybrid
	}{
		{5, 0, hybrid(5, 0)},
		{6, 0, hybrid(6, 0)},
		{10, hybrid(10, 5), hybrid(10, 6)},
		{7, 0, hybrid(10, 7)}, // the wall clock jumps back
		{8, hybrid(10, 4), hybrid(10, 9)},
		{10, hybrid(10, 99), hybrid(10, 100)},
		{11, hybrid(10, 31), hybrid(11, 1)}, // the wall clock has caught up
		{11, 0, hybrid(11, 2)},
	} {
		now, _ = now.Tick(at(step.wall))
		if step.received > 0 {
			now, _ = now.Receive(at(step.wall), step.received, time.Second)
		}
		if now != step.want {
			t.Fatalf("step %d: %s, want %s", i, now, step.want)
		}
	}
}

// TestHybridClocksHoldTheInvariantsOfTheirPaper plays processes whose wall clocks differ and jump,
// and checks: an event that happened before another has a lower clock; the time of a clock is never
// before the wall clock and never after the highest wall clock that any process had; the counter is
// at most the number of events.
func TestHybridClocksHoldTheInvariantsOfTheirPaper(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var clocks [4]clock.Hybrid
		var skew [4]int64
		var sent []clock.Hybrid
		highest, events := int64(0), 0
		for wall := int64(1000); wall < 1300; wall += rng.Int64N(3) {
			p := rng.IntN(len(clocks))
			if rng.IntN(20) == 0 {
				skew[p] = rng.Int64N(40) - 20
			}
			mine := wall + skew[p]
			highest = max(highest, mine)
			before, received := clocks[p], clock.Hybrid(0)
			if len(sent) > 0 && rng.IntN(2) == 0 {
				received = sent[rng.IntN(len(sent))]
				clocks[p], _ = before.Receive(at(mine), received, time.Minute)
			} else {
				clocks[p], _ = before.Tick(at(mine))
			}
			sent = append(sent, clocks[p])
			events++
			got := clocks[p]
			switch {
			case got <= before || got <= received:
				t.Fatalf("seed %d: %s is not after %s and %s", seed, got, before, received)
			case got.Time().Before(at(mine)) || got.Time().After(at(highest)):
				t.Fatalf("seed %d: %s, while the wall clocks are %d to %d", seed, got, mine, highest)
			case int(got.Counter()) > events:
				t.Fatalf("seed %d: counter %d after %d events", seed, got.Counter(), events)
			}
		}
	}
}

func TestAClockFarAheadOfTheWallClockIsRefused(t *testing.T) {
	mine := hybrid(1000, 7)
	for ahead, refused := range map[time.Duration]bool{0: false, time.Minute: false, time.Minute + time.Millisecond: true} {
		sent := clock.HybridAt(at(1000).Add(ahead))
		got, err := mine.Receive(at(1000), sent, time.Minute)
		tooFar, is := errors.AsType[*clock.AheadError](err)
		if is != refused || refused && (got != mine || tooFar.Clock != sent || !tooFar.Now.Equal(at(1000))) {
			t.Errorf("%s ahead: %s, %v", ahead, got, err)
		}
	}
	// The wall clock was set back by an hour. The process goes on with its own clock.
	mine = clock.HybridAt(at(1000).Add(time.Hour))
	if got, err := mine.Receive(at(1000), hybrid(5, 0), time.Minute); err != nil || got != mine+1 {
		t.Errorf("%s, %v", got, err)
	}
}

func TestAHybridClockContinuesAfterARestartWithAnEarlierWallClock(t *testing.T) {
	before, _ := clock.Hybrid(0).Tick(at(90_000))
	stored, _ := before.MarshalBinary()
	var now clock.Hybrid
	if err := now.UnmarshalBinary(stored); err != nil {
		t.Fatal(err)
	}
	if after, err := now.Tick(at(30_000)); err != nil || after <= before {
		t.Errorf("%s after %s, %v", after, before, err)
	}
}

func TestManyEventsWithinAMillisecondMoveTheTimeAhead(t *testing.T) {
	h := hybrid(1000, math.MaxUint16)
	if next, err := h.Tick(at(1000)); err != nil || next != hybrid(1001, 0) {
		t.Errorf("%s, %v", next, err)
	}
}

func TestAHybridClockHasAnEnd(t *testing.T) {
	last := clock.HybridAt(time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)) | math.MaxUint16
	if last.String() != "9999-12-31T23:59:59.999Z-ffff" {
		t.Errorf("the last clock is %s", last)
	}
	if _, err := last.Tick(at(0)); !errors.Is(err, clock.ErrOverflow) {
		t.Error(err)
	}
	if got, err := hybrid(1, 0).Receive(last.Time(), last, 0); !errors.Is(err, clock.ErrOverflow) || got != hybrid(1, 0) {
		t.Errorf("a clock receives the last one: %s, %v; it must stay as it is", got, err)
	}
	if h := clock.HybridAt(time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC)); h != 0 {
		t.Errorf("before 1970 it is %s", h)
	}
}
