package room

import (
	"encoding/json"
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

var (
	seeds = flag.Uint64("seeds", 2, "simulations")
	first = flag.Uint64("first", 1, "the seed of the first one")
	lines = flag.Int("lines", 400, "lines of each one")
)

func TestEveryRegionShowsEachLineOnceAndInOneOrder(t *testing.T) {
	if testing.Short() {
		*seeds, *lines = 1, 200
	}
	for seed := *first; seed < *first+*seeds; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := simulate(t, usual(seed, *lines))
				w.check()
				for _, v := range w.violations[:min(len(w.violations), 10)] {
					t.Error(v)
				}
				f, err := json.Marshal(w.figures())
				t.Logf("figures: %s %v", f, err)
			})
		})
	}
}

// Figures are how long lines took to the screens, in virtual time, and how much was buffered: lines
// in an outbox when one was added, messages on a queue when it was received from, and held messages
// and pending effects of a room after a commit. prove reads them.
type Figures struct {
	Lines           int
	Took            time.Duration
	Own, Others     Percentiles[time.Duration]
	Outbox, Queued  Percentiles[int]
	Held            Percentiles[int]
	Pending, Stored Percentiles[int] // effects, and their bytes
}

func (w *world) figures() Figures {
	now := time.Now()
	f := Figures{Lines: len(w.sent), Took: now.Sub(w.start).Round(time.Second), Outbox: PercentilesOf(w.outboxes)} // virtual time: a simulation runs in a bubble
	var own, others []time.Duration
	var queued, held, pending, stored []int
	for _, p := range w.regions {
		for i, h := range p.reader.heard {
			took := p.reader.at[i].Sub(w.sent[h.Text])
			if h.Region == p.reader.region {
				own = append(own, took)
			} else {
				others = append(others, took)
			}
		}
		s := p.server.store
		queued, held, pending, stored = append(queued, p.server.queued...), append(held, s.held...), append(pending, s.pending...), append(stored, s.bytes...)
	}
	f.Own, f.Others = PercentilesOf(own), PercentilesOf(others)
	f.Queued, f.Held, f.Pending, f.Stored = PercentilesOf(queued), PercentilesOf(held), PercentilesOf(pending), PercentilesOf(stored)
	for _, p := range w.regions { // it may have been deeper between two receives
		f.Queued.Max = max(f.Queued.Max, p.server.ingress.Deepest())
	}
	return f
}

// TestASeedReproducesItsRun compares when each screen showed each line, to the nanosecond. Only then
// can a violation that one run of thousands has shown be looked at again.
func TestASeedReproducesItsRun(t *testing.T) {
	t.Parallel()
	size := 2000
	if testing.Short() {
		size = 400
	}
	var runs [2][]string
	for i := range runs {
		synctest.Test(t, func(t *testing.T) {
			w := simulate(t, usual(3, size))
			w.check()
			for _, p := range w.regions {
				for n, h := range p.reader.heard {
					runs[i] = append(runs[i], fmt.Sprint(p.reader.region, " ", p.reader.at[n].Sub(w.start), " ", h.ID, " ", h.At))
				}
			}
		})
	}
	if len(runs[0]) != 5*size {
		t.Errorf("%d lines were shown, not %d", len(runs[0]), 5*size)
	}
	for i := range min(len(runs[0]), len(runs[1])) {
		if a, b := runs[0][i], runs[1][i]; a != b {
			t.Fatalf("row %d is %q in the first run and %q in the second one", i, a, b)
		}
	}
}
