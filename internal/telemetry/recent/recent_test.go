package recent_test

import (
	"math"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/telemetry/recent"
)

// A clock is set by the test.
type clock struct{ time.Time }

func (c *clock) now() time.Time { return c.Time }

func newClock() *clock { return &clock{time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)} }

func observe(m *recent.Metrics, name record.EventName, stream string, n int) {
	m.Observe(&record.Event{Name: name, Stream: stream, Count: n})
}

func TestRatesAreThoseOfTheStepsThatHaveEnded(t *testing.T) {
	c := newClock()
	m := recent.New(c.now)
	observe(m, record.EventAccepted, "orders", 10)
	observe(m, record.EventProcessed, "orders", 5)
	observe(m, record.EventAccepted, "jobs", 20)
	if s := m.Series(""); len(s.Accepted) != 0 {
		t.Errorf("the step that has not ended is there: %v", s.Accepted)
	}
	c.Time = c.Add(recent.Step)
	observe(m, record.EventHandlerFailed, "orders", 15)
	observe(m, "dead-lettered", "orders", 1)
	c.Time = c.Add(recent.Step)
	s := m.Series("orders")
	if len(s.Accepted) != 2 || s.Accepted[0] != 2 || s.Accepted[1] != 0 || s.Done[0] != 1 || s.Failed[1] != 3 || s.Dead[1] != 0.2 {
		t.Errorf("orders: %+v, want accepted 2, 0, done 1, 0, failed 0, 3, dead 0, 0.2 a second", s)
	}
	if all := m.Series(""); all.Accepted[0] != 6 {
		t.Errorf("all streams: %v a second were accepted, want 6", all.Accepted[0])
	}
	if !s.End.Equal(c.Time) {
		t.Errorf("the last step ended at %v, want %v", s.End, c.Time)
	}
}

func TestAtMostTenMinutesAreKept(t *testing.T) {
	c := newClock()
	m := recent.New(c.now)
	for range 1000 {
		observe(m, record.EventAccepted, "orders", 5)
		c.Time = c.Add(recent.Step)
	}
	s := m.Series("orders")
	if len(s.Accepted) != 120 {
		t.Errorf("%d steps are kept, want 120", len(s.Accepted))
	}
	for i, rate := range s.Accepted {
		if rate != 1 {
			t.Errorf("step %d: %v a second, want 1", i, rate)
		}
	}
	c.Time = c.Add(time.Hour)
	for i, rate := range m.Series("orders").Accepted {
		if rate != 0 {
			t.Errorf("an hour later, step %d: %v a second, want 0", i, rate)
		}
	}
}

func TestALatencyIsKnownWithinAFifth(t *testing.T) {
	for _, took := range []time.Duration{20 * time.Microsecond, time.Millisecond, 37 * time.Millisecond, time.Second, 61 * time.Second} {
		c := newClock()
		m := recent.New(c.now)
		for range 99 {
			m.Ran("orders", took)
		}
		m.Ran("orders", 2*took)
		c.Time = c.Add(recent.Step)
		s := m.Series("")
		for name, got := range map[string]float64{"p50": s.P50[0], "p99": s.P99[0]} {
			if got < took.Seconds() || got > 1.2*took.Seconds() {
				t.Errorf("%s of runs of %v is %v s", name, took, got)
			}
		}
	}
	c := newClock()
	m := recent.New(c.now)
	m.Ran("orders", 0)
	m.Ran("orders", time.Hour)
	c.Time = c.Add(2 * recent.Step)
	if s := m.Series("orders"); s.P50[0] > 1e-5 || s.P99[0] < 120 || !math.IsNaN(s.P50[1]) {
		t.Errorf("p50 %v, p99 %v, want a bound of 10 µs, one of more than 120 s, and none for the second step", s.P50, s.P99)
	}
}
