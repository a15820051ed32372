package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/faultproxy"
)

// A chaosFault is something bad that a storm does to the system, and how often in comparison with the others.
type chaosFault struct {
	name   string
	weight int
	strike func(ctx context.Context) error
}

// A storm does one bad thing after another, each of them once before any comes again.
type storm struct {
	random *rand.Rand
	every  time.Duration
	faults []chaosFault

	mu   sync.Mutex
	done map[string]int
}

func newStorm(random *rand.Rand, every time.Duration, faults ...chaosFault) *storm {
	return &storm{random: newChaosRandom(random), every: every, faults: faults, done: map[string]int{}}
}

// rage strikes until calm is closed, and until each fault has struck once.
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
		if err := sleep(ctx, s.pause()); err != nil {
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

// pause is between half and one and a half of the mean.
func (s *storm) pause() time.Duration { return s.every/2 + rand.N(s.every) }

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

// counts gives what was done so far.
func (s *storm) counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]int{}
	for name, n := range s.done {
		out[name] = n
	}
	return out
}

// sleep waits, unless the context ends.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A cutter is a proxy that cuts a share of the calls: before they reach the service, after that, in the middle of the answer.
type cutter struct {
	url   string
	share atomic.Int64 // of a million
	cuts  atomic.Int64
}

// cutting are faults that any HTTP client must expect of a network, and of what stands in it.
var cutting = []faultproxy.Fault{faultproxy.ResetBefore, faultproxy.ResetAfter, faultproxy.Dropped, faultproxy.Cut, faultproxy.Failed}

// newCutter starts a proxy to one service, or to several that are the same.
func newCutter(t *testing.T, share float64, targets ...string) *cutter {
	t.Helper()
	c := &cutter{}
	c.share.Store(int64(share * 1e6))
	plan := func(faultproxy.Call) faultproxy.Fault {
		if rand.Int64N(1e6) >= c.share.Load() {
			return faultproxy.None
		}
		c.cuts.Add(1)
		return cutting[rand.IntN(len(cutting))]
	}
	var proxies []*faultproxy.Proxy
	for _, target := range targets {
		proxies = append(proxies, faultproxy.New(target, plan))
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proxies[rand.IntN(len(proxies))].ServeHTTP(w, r)
	}))
	server.Config.ConnState = func(net.Conn, http.ConnState) {}
	server.Start()
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

// heal lets everything through from now on.
func (c *cutter) heal() { c.share.Store(0) }
