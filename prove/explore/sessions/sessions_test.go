package sessions_test

import (
	"flag"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/prove/explore/sessions"
)

var (
	bound = flag.Int("bound", 10_000, "explore at most about so many states of each scenario; 0 means all. go -C prove run . explores them all")
	only  = flag.String("scenario", "*", "explore the scenarios whose names match this pattern")
)

// chosen returns the larger scenarios, if one of them is named.
func chosen() []sessions.Scenario {
	if *only == "*" {
		return nil
	}
	return sessions.Long()
}

func TestEveryStateOfEveryScenarioOfSessionsIsRight(t *testing.T) {
	for _, s := range append(sessions.Scenarios(), chosen()...) {
		if ok, err := path.Match(*only, s.Name); !ok || err != nil {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			begin := time.Now()
			if s.Bound = *bound; testing.Short() { // under the race detector
				s.Bound = 2_000
			}
			r := sessions.Explore(t.Context(), &s)
			if r.Wrong != "" {
				t.Errorf("%s, after %d steps:\n%s", r.Wrong, len(r.Trace), strings.Join(r.Trace, "\n"))
			}
			if !r.Exhausted && r.States < s.Bound || r.Recoveries == 0 {
				t.Errorf("%d states and %d recoveries are not all", r.States, r.Recoveries)
			}
			// real time: a figure of the log
			t.Logf("%d states, %d steps, depth %d, %d recoveries, exhausted: %v, %v", r.States, r.Steps, r.Depth, r.Recoveries, r.Exhausted, time.Since(begin).Round(time.Millisecond))
		})
	}
}
