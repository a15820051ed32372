// Package recent keeps the rates and the latencies of the last ten minutes in memory, for the
// charts of the console.
//
// # Limits
//
// A latency is known within a fifth. A stream takes up to 60 KB, however many messages it has.
// After a start there is nothing from before it.
package recent

import (
	"math"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/telemetry"
)

const (
	// Step is the time that one value of a series is for.
	Step = 5 * time.Second
	// Steps is how many values a series has at most: those of ten minutes.
	Steps = 120
	// slots is how many steps are kept: those of a series, and the one that has not ended.
	slots = Steps + 1
	// shortest is the upper bound of the first bucket of latencies. Each bucket ends at 2^(1/4)
	// times the end of the one before; the last one is for runs of more than two minutes.
	shortest = 10 * time.Microsecond
	buckets  = 96
)

// Metrics are the rates and latencies of a system. They may be used concurrently.
type Metrics struct {
	now   func() time.Time
	began int64 // the number of the first step

	mu      sync.Mutex
	streams map[string]*ring
}

// A ring has the steps of a stream. The step with number n is at n modulo its length.
type ring [slots]slot

// A slot has the counts of one step.
type slot struct {
	step                         int64
	accepted, done, failed, dead float64
	runs                         *[buckets]uint32 // by their latency; nil if there are none
}

// New returns metrics that are all zero.
func New(now func() time.Time) *Metrics {
	return &Metrics{now: now, began: number(now()), streams: map[string]*ring{}}
}

// number returns the number of the step of a time.
func number(t time.Time) int64 { return t.UnixNano() / int64(Step) }

// Observe counts an event.
func (m *Metrics) Observe(e *record.Event) {
	for _, metric := range telemetry.MetricsOf(e) {
		n := float64(e.Count)
		switch metric {
		case telemetry.MetricAccepted:
			m.add(e.Stream, func(s *slot) { s.accepted += n })
		case telemetry.MetricProcessed:
			m.add(e.Stream, func(s *slot) { s.done += n })
		case telemetry.MetricHandlerFailed:
			m.add(e.Stream, func(s *slot) { s.failed += n })
		case telemetry.MetricDeadLettered:
			m.add(e.Stream, func(s *slot) { s.dead += n })
		}
	}
}

// Ran counts a run of a handler.
func (m *Metrics) Ran(stream string, took time.Duration) {
	at := bucketOf(took)
	m.add(stream, func(s *slot) {
		if s.runs == nil {
			s.runs = new([buckets]uint32)
		}
		s.runs[at]++
	})
}

// bucketOf returns the bucket of a latency.
func bucketOf(took time.Duration) int {
	if took <= shortest {
		return 0
	}
	return min(int(math.Ceil(4*math.Log2(float64(took)/float64(shortest)))), buckets-1)
}

// add changes the counts of the step that is now.
func (m *Metrics) add(stream string, change func(*slot)) {
	n := number(m.now())
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.streams[stream]
	if r == nil {
		r = new(ring)
		m.streams[stream] = r
	}
	s := &r[((n%slots)+slots)%slots]
	if s.step != n {
		*s = slot{step: n}
	}
	change(s)
}

// A Series has the values of a number of steps, the oldest first. The last one has ended at End.
type Series struct {
	End time.Time
	// Accepted, Done, Failed and Dead are numbers per second: of accepted messages, of messages
	// that were processed, of runs of handlers that failed, and of new dead letters.
	Accepted, Done, Failed, Dead []float64
	// P50 and P99 are percentiles of how long runs of handlers took, in seconds. They are NaN for a
	// step without runs.
	P50, P99 []float64
}

// Series returns the steps of a stream that have ended, in the last ten minutes and since the
// start. The empty name stands for all streams together.
func (m *Metrics) Series(stream string) Series {
	now := number(m.now())
	first := max(now-slots+1, m.began)
	out := Series{End: time.Unix(0, now*int64(Step)).UTC()}
	m.mu.Lock()
	defer m.mu.Unlock()
	for n := first; n < now; n++ {
		out.append(m.sum(stream, n))
	}
	return out
}

// sum returns the counts of one step.
func (m *Metrics) sum(stream string, n int64) slot {
	var total slot
	for name, r := range m.streams {
		s := &r[((n%slots)+slots)%slots]
		if s.step != n || stream != "" && name != stream {
			continue
		}
		total.accepted += s.accepted
		total.done += s.done
		total.failed += s.failed
		total.dead += s.dead
		if s.runs == nil {
			continue
		}
		if total.runs == nil {
			total.runs = new([buckets]uint32)
		}
		for i, n := range s.runs {
			total.runs[i] += n
		}
	}
	return total
}

func (s *Series) append(x slot) {
	const seconds = float64(Step / time.Second)
	s.Accepted = append(s.Accepted, x.accepted/seconds)
	s.Done = append(s.Done, x.done/seconds)
	s.Failed = append(s.Failed, x.failed/seconds)
	s.Dead = append(s.Dead, x.dead/seconds)
	s.P50 = append(s.P50, percentile(x.runs, 0.50))
	s.P99 = append(s.P99, percentile(x.runs, 0.99))
}

// percentile returns the upper bound of the bucket that has the run at a fraction of all runs, in
// seconds.
func percentile(runs *[buckets]uint32, fraction float64) float64 {
	if runs == nil {
		return math.NaN()
	}
	var all, below uint64
	for _, n := range runs {
		all += uint64(n)
	}
	rank := uint64(math.Ceil(fraction * float64(all)))
	for i, n := range runs {
		if below += uint64(n); below >= rank {
			return shortest.Seconds() * math.Exp2(float64(i)/4)
		}
	}
	return math.NaN()
}
