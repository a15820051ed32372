package telemetry

import (
	"sync"

	"github.com/effectively-once/once/internal/record"
)

// Counts are numbers by stream and metric.
type Counts map[string]map[string]float64

// Add adds to a count, or keeps the greatest of an age.
func (c Counts) Add(stream, metric string, v float64) {
	of := c[stream]
	if of == nil {
		of = map[string]float64{}
		c[stream] = of
	}
	if Unit(metric) == UnitSeconds {
		of[metric] = max(of[metric], v)
		return
	}
	of[metric] += v
}

// A tally collects counts between two reports. It may be used concurrently.
type tally struct {
	mu     sync.Mutex
	counts Counts
}

func (t *tally) observe(e *record.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = Counts{}
	}
	for _, metric := range MetricsOf(e) {
		t.counts.Add(e.Stream, metric, Value(e, metric))
	}
}

// take returns the counts since the last call, and resets them.
func (t *tally) take() Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.counts
	t.counts = nil
	return c
}
