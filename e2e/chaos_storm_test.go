package e2e

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/testkit/faultproxy"
)

// A chaosFault is a fault that a storm injects into the system, and its relative frequency.
type chaosFault struct {
	name   string
	weight int
	strike func(ctx context.Context) error
}

// A storm injects one fault after another, each of them once before any is repeated.
type storm struct {
	random *rand.Rand
	every  time.Duration
	faults []chaosFault
	// progress returns the amount of work that the system has done. After a fault the system gets
	// the time for at least stride more of it, on any machine.
	progress func() int64
	stride   int64

	mu   sync.Mutex
	done map[string]int
}

func newStorm(random *rand.Rand, every time.Duration, faults ...chaosFault) *storm {
	return &storm{random: newChaosRandom(random), every: every, faults: faults, done: map[string]int{}}
}

// rage injects faults until calm is closed, and until each was injected once.
func (s *storm) rage(ctx context.Context, calm <-chan struct{}) error {
	order := s.random.Perm(len(s.faults))
	for n := 0; ; n++ {
		over := n >= len(order)
		select {
		case <-calm:
			if over {
				return nil
			}
		default:
		}
		if err := s.rest(ctx, calm); err != nil {
			return err
		}
		f := s.choose()
		if !over {
			f = s.faults[order[n]]
		}
		if err := f.strike(ctx); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		s.count(f.name)
	}
}

// breath is how often a storm looks for progress before the next fault: for 20 seconds.
const breath = 1000

// rest waits between half and one and a half of the mean, and then until there was progress.
func (s *storm) rest(ctx context.Context, calm <-chan struct{}) error {
	before := s.progress()
	err := sleep(ctx, s.every/2+rand.N(s.every))
	for looks := 0; err == nil && s.progress() < before+s.stride && looks < breath; looks++ {
		select {
		case <-calm:
			return nil
		default:
			err = sleep(ctx, 20*time.Millisecond)
		}
	}
	return err
}

func (s *storm) choose() chaosFault {
	total := 0
	for _, f := range s.faults {
		total += f.weight
	}
	at := s.random.IntN(total)
	for _, f := range s.faults {
		if at -= f.weight; at < 0 {
			return f
		}
	}
	return s.faults[0]
}

func (s *storm) count(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done[name]++
}

// counts returns the numbers of injected faults.
func (s *storm) counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.done)
}

// sleep waits for d, or until the context ends. Tests call it for the moment of a fault, and for the
// pause before they ask a process again. No verdict depends on how long it takes.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d) // real time: the moment of a fault in another process
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A cutter is a proxy that cuts a share of the calls, once it is enabled: before they reach the
// service, after that, or in the middle of the answer.
type cutter struct {
	url     string
	cutting atomic.Bool
	calls   atomic.Int64 // while it cuts
	cuts    atomic.Int64
}

// cuts are faults that any HTTP client must expect of a network and its proxies.
var cuts = []faultproxy.Fault{faultproxy.ResetBefore, faultproxy.ResetAfter, faultproxy.Dropped, faultproxy.Cut, faultproxy.Failed}

// newCutter starts a proxy to one service, or to several equivalent ones. It cuts a share of the
// calls, and one of the first twenty: a short run has a cut, too.
func newCutter(t *testing.T, share float64, targets ...string) *cutter {
	t.Helper()
	c := &cutter{}
	first := 1 + rand.Int64N(20)
	plan := func(faultproxy.Call) faultproxy.Fault {
		if !c.cutting.Load() || c.calls.Add(1) != first && rand.Float64() >= share {
			return faultproxy.None
		}
		c.cuts.Add(1)
		return cuts[rand.IntN(len(cuts))]
	}
	var proxies []*faultproxy.Proxy
	for _, target := range targets {
		proxies = append(proxies, faultproxy.New(target, plan))
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxies[rand.IntN(len(proxies))].ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

// cut enables the faults, heal disables them.
func (c *cutter) cut()  { c.cutting.Store(true) }
func (c *cutter) heal() { c.cutting.Store(false) }
