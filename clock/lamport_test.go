package clock_test

import (
	"errors"
	"math"
	"testing"

	"github.com/effectively-once/once/clock"
)

// The rules are IR1 and IR2 of L. Lamport, Time, Clocks, and the Ordering of Events in a
// Distributed System, 1978: each event adds one, and a message moves its receiver past the sender.
func TestALamportClockIsOneMoreThanTheHigherOfTheTwo(t *testing.T) {
	for _, test := range []struct{ own, sent, want clock.Lamport }{{0, 0, 1}, {1, 5, 6}, {5, 1, 6}, {5, 5, 6}} {
		if got, err := test.own.Receive(test.sent); err != nil || got != test.want {
			t.Errorf("%d receives %d: %d, %v", test.own, test.sent, got, err)
		}
	}
	if got, err := clock.Lamport(7).Tick(); err != nil || got != 8 {
		t.Errorf("7 ticks: %d, %v", got, err)
	}
}

func TestTheLastLamportNumberIsAnErrorAndDoesNotWrap(t *testing.T) {
	const last = clock.Lamport(math.MaxUint64)
	if got, err := last.Tick(); !errors.Is(err, clock.ErrOverflow) || got != last {
		t.Errorf("%d, %v", got, err)
	}
	if got, err := clock.Lamport(1).Receive(last); !errors.Is(err, clock.ErrOverflow) || got != 1 {
		t.Errorf("1 receives the last number: %d, %v; the clock must stay as it is", got, err)
	}
}
