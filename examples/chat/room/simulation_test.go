package room

import (
	"flag"
	"fmt"
	"slices"
	"strings"
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
				t.Log(w.figures())
			})
		})
	}
}

// figures are how long lines took to the screens, in virtual time, and how much was buffered.
func (w *world) figures() string {
	var own, others []time.Duration
	held, pending, bytes, queued := 0, 0, 0, 0
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
		held, pending, bytes, queued = max(held, s.held), max(pending, s.pending), max(bytes, s.bytes), max(queued, p.server.ingress.Deepest())
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d lines in %s; to the own screen %s; to the others %s; ", len(w.sent), time.Since(w.start).Round(time.Second), percentiles(own), percentiles(others))
	fmt.Fprintf(&b, "at most %d lines in an outbox, %d queued, %d held, %d pending of %d bytes", w.deepest, queued, held, pending, bytes)
	return b.String()
}

// percentiles returns the median, the 99th percentile and the maximum.
func percentiles(list []time.Duration) string {
	if len(list) == 0 {
		return "nothing"
	}
	slices.Sort(list)
	at := func(p int) time.Duration { return list[(len(list)-1)*p/100].Round(time.Millisecond) }
	return fmt.Sprintf("%s, %s, %s", at(50), at(99), at(100))
}
