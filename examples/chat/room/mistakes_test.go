package room

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/effectively-once/once/client"
)

// mistakes are planted in a simulation.
type mistakes struct {
	wallClock bool // lines are sorted by the time at which a region got them
	alone     bool // answers do not wait for their parents in other regions
	unbounded bool // an outbox keeps any number of lines
	renumbers bool // a line without an answer is sent again under a new number
	repeats   bool // an epoch is issued twice
}

func TestPlantedMistakesBreakTheSimulation(t *testing.T) {
	for name, c := range map[string]struct {
		mistakes
		lines int
		want  string // in a violation
	}{
		"wall-clock order":         {mistakes{wallClock: true}, 200, "show another order"},
		"parents ignored":          {mistakes{alone: true}, 400, "which it answers"},
		"unbounded buffer":         {mistakes{unbounded: true}, 1000, "an outbox kept"},
		"resend under new numbers": {mistakes{renumbers: true}, 200, "is there twice"},
		"epoch issued twice":       {mistakes{repeats: true}, 400, "is missing"},
	} {
		if testing.Short() && c.lines > 200 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				sc := usual(1, c.lines)
				sc.mistakes = c.mistakes
				w := simulate(t, sc)
				w.check()
				if !strings.Contains(strings.Join(w.violations, "\n"), c.want) {
					t.Errorf("no violation says %q: %q", c.want, w.violations[:min(len(w.violations), 5)])
				}
			})
		})
	}
}

// careless is a sender that sends a line again under a new number if it got no answer.
type careless struct {
	person *person

	mu   sync.Mutex
	last uint64
}

func (s *careless) Send(ctx context.Context, m client.Message) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ctx.Err() == nil {
		s.last++
		m.Source, m.Sequence = s.person.name, s.last
		if _, err := s.person.client.Send(ctx, m); err == nil {
			break
		}
	}
	return s.last, nil
}

func (s *careless) Pending() int                { return 0 }
func (s *careless) Close(context.Context) error { return nil }

// repeat answers each request for an epoch as the first one of its source.
func repeat() func(*http.Request, *recorder) {
	var mu sync.Mutex
	first := map[string][]byte{}
	return func(r *http.Request, out *recorder) {
		if !strings.Contains(r.URL.Path, "/epochs/") {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if body, again := first[r.URL.Path]; again {
			out.status = http.StatusOK
			out.body.Reset()
			out.body.Write(body)
			return
		}
		if out.status == http.StatusOK {
			first[r.URL.Path] = bytes.Clone(out.body.Bytes())
		}
	}
}
