package explore_test

import (
	"cmp"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/explore"
)

var bound = flag.Int("bound", 0, "at most so many states")

var only = flag.String("scenario", "", "explore this one only")

func TestEveryStateOfEveryScenarioIsRight(t *testing.T) {
	scenarios, err := explore.Load(os.DirFS("testdata/scenarios"), cmp.Or(*only, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scenarios {
		if *bound > 0 {
			s.Bound = *bound
		}
		t.Run(s.Name, func(t *testing.T) {
			begin := time.Now()
			r, err := explore.Explore(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if r.Violation != nil {
				t.Errorf("%s, after %d steps:\n%s", r.Violation.Wrong, len(r.Violation.Trace), strings.Join(r.Violation.Trace, "\n"))
			}
			t.Logf("%d states, %d steps, depth %d, %d ends, exhausted: %v, %v", r.States, r.Steps, r.Depth, r.Ends, r.Exhausted, time.Since(begin).Round(time.Millisecond))
		})
	}
}
