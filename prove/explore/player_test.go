package explore_test

import (
	"os"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/effectively-once/once/prove/explore"
)

// The traces record what the real code does in orders of steps that were once, or could be, fatal.
// "play" names the scenario, "step" takes one step, "rest" asks whether all is done and right.
func TestEveryTraceIsPlayedAsItIsWritten(t *testing.T) {
	datadriven.Walk(t, "testdata/traces", func(t *testing.T, path string) {
		var player *explore.Player
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			input := strings.TrimSpace(d.Input)
			switch d.Cmd {
			case "play":
				scenarios, err := explore.Load(os.DirFS("testdata/scenarios"), input)
				if err != nil || len(scenarios) != 1 {
					d.Fatalf(t, "load scenario %q: %d, %v", input, len(scenarios), err)
				}
				if player, err = explore.Play(scenarios[0]); err != nil {
					d.Fatalf(t, "%v", err)
				}
				return scenarios[0].About
			case "step":
				told, err := player.Step(input)
				if err != nil {
					return "error: " + err.Error()
				}
				return told
			case "rest":
				done, err := player.Rest()
				switch {
				case err != nil:
					return "error: " + err.Error()
				case !done:
					return "not yet"
				}
				return "all is done"
			}
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		})
	})
}
