package explore_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/prove/explore"
)

var (
	bound          = flag.Int("bound", 5_000, "explore at most about so many states of each scenario; 0 is what the scenario says. go -C prove run . explores them all")
	only           = flag.String("scenario", "*", "explore the scenarios whose names match this pattern")
	counterexample = flag.String("counterexample", "", "write the last violation to this file, as testdata/traces has them")
	results        = flag.String("results", "", "write what was found to this file, as JSON")
)

func TestEveryStateOfEveryScenarioIsRight(t *testing.T) {
	scenarios, err := explore.Load(os.DirFS("testdata/scenarios"), *only)
	if err != nil {
		t.Fatal(err)
	}
	if len(scenarios) == 0 {
		t.Fatalf("no scenario is named %s", *only)
	}
	var all []explore.Result
	for _, s := range scenarios {
		s.Bound = cmp.Or(*bound, s.Bound)
		if testing.Short() { // under the race detector
			s.Bound = min(s.Bound, 2_000)
		}
		t.Run(s.Name, func(t *testing.T) {
			begin := time.Now()
			r, err := explore.Explore(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
			if r.Violation != nil {
				t.Errorf("%s, after %d steps:\n%s", r.Violation.Wrong, len(r.Violation.Trace), strings.Join(r.Violation.Trace, "\n"))
				writeTrace(t, s.Name, r.Violation)
			}
			// real time: a figure of the log
			t.Logf("%d states, %d steps, depth %d, %d ends, exhausted: %v, %v", r.States, r.Steps, r.Depth, r.Ends, r.Exhausted, time.Since(begin).Round(time.Millisecond))
		})
	}
	if *results == "" {
		return
	}
	text, err := json.Marshal(all)
	if err == nil {
		err = os.WriteFile(*results, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// writeTrace writes a violation as steps to be played, without their results.
func writeTrace(t *testing.T, scenario string, v *explore.Violation) {
	t.Helper()
	if *counterexample == "" {
		return
	}
	text := "# " + v.Wrong + "\n\nplay\n" + scenario + "\n----\n\nstep\n" + strings.Join(v.Trace, "\n----\n\nstep\n") + "\n----\n\nrest\n----\n"
	if err := os.WriteFile(*counterexample, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
