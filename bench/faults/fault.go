package main

import (
	mathrand "math/rand/v2"
	"slices"
	"time"
)

const (
	learnt     = 5  // invocations of each stage that are measured before the first fault
	remembered = 31 // the latest invocations of each stage, which define the usual time
	sendShare  = 1.0 / 3
)

// A fault is a kind of failure.
type fault string

const (
	killed  fault = "kill"
	refused fault = "send"
	stalled fault = "stop"
	lost    fault = "answer"
)

func faults() []fault { return []fault{killed, refused, stalled, lost} }

// describe returns a description of a fault.
func (f fault) describe() string {
	return map[fault]string{
		killed:  "SIGKILL at a random moment of the handling",
		refused: "a send that fails, one time in three",
		stalled: "SIGSTOP at a random moment, until after the redelivery",
		lost:    "a write to DynamoDB whose answer is lost",
	}[f]
}

// A profile holds the times and writes of undisturbed invocations of a stage.
type profile struct {
	took   []time.Duration
	writes []int
}

// arm decides whether, and when, an invocation meets a fault. Half of the first deliveries do; the
// moments are spread evenly over the time, or the writes, of all stages.
func (t *trial) arm(w *worker, in *invocation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !in.fresh || t.fault == refused || t.struck+t.arming >= t.target {
		return
	}
	var all float64
	for _, p := range t.stages {
		if len(p.took) < learnt {
			return
		}
		all += p.weight(t.fault)
	}
	own := t.stages[w.stage].weight(t.fault)
	if mathrand.Float64() >= own/all/2 { //nolint:gosec // chance is all that is asked for
		return
	}
	in.armed = true
	t.arming++
	moment := mathrand.Float64() * own //nolint:gosec // likewise
	if t.fault == lost {
		in.dropAt = int(moment)
		return
	}
	in.timer = time.AfterFunc(time.Duration(moment*float64(time.Second)), func() { w.strike(in) })
}

// weight returns the usual time of a stage in seconds, or its usual number of writes.
func (p *profile) weight(f fault) float64 {
	if f == lost {
		return float64(middle(p.writes))
	}
	return middle(p.took).Seconds()
}

func middle[T int | time.Duration](all []T) T {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// settled records how an invocation ended.
func (t *trial) settled(s *stage, in *invocation, success bool) {
	if success {
		t.broker.remove(in.item.Receipt)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !in.armed && time.Since(in.began) > visibility {
		t.late++
	}
	if in.fresh && !in.armed && success {
		p := t.stages[s]
		p.took = append(p.took, time.Since(in.began))
		p.writes = append(p.writes, in.writes)
		p.took, p.writes = p.took[max(0, len(p.took)-remembered):], p.writes[max(0, len(p.writes)-remembered):]
	}
}

// end ends an invocation, and cancels its planned fault.
func (t *trial) end(in *invocation) {
	in.settled = true
	if in.timer != nil {
		in.timer.Stop()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if in.armed && !in.struck {
		in.struck = true
		t.arming--
	}
}

// committed counts a fault that an invocation has met.
func (t *trial) committed(in *invocation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	in.struck = true
	t.arming--
	t.strikeOne()
}

func (t *trial) strikeOne() {
	if t.struck++; t.struck == t.target {
		close(t.finished)
	}
}
