package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/testkit/overlay"
)

// A chaosMistake is a small change of the product's source that a chaos run must notice.
type chaosMistake struct {
	name   string
	change overlay.Change
}

func chaosMistakes() []chaosMistake {
	return []chaosMistake{
		{"the poller acknowledges what has failed", overlay.Change{
			File: "internal/system/embedded/poller.go", Old: "if disposition.Retry {", New: "if disposition.Retry && disposition.Pause < 0 {",
		}},
		{"triggers get lost on their way to the queue", overlay.Change{
			File: "internal/system/pipeline/queues.go", Old: "return send(ctx, to, messages...)", New: "_ = to\n\treturn nil",
		}},
		{"a token that is done is not believed", overlay.Change{
			File: "internal/dedup/admission/admit.go", Old: "case t.State == record.Done:\n\t\treturn", New: "case t.State == record.Done && false:\n\t\treturn",
		}},
	}
}

// A chaos test that never finds anything proves nothing. Here the webhook fails often, and the only
// other faults are kills, so that few messages suffice; without a mistake the same run passes.
func TestChaosNoticesAMistake(t *testing.T) {
	few := chaosPlan{form: "no-mistake", messages: 400, trouble: 0.15, cut: 0.05, patience: *chaosPatience}
	kills := func(x *embeddedTarget) []chaosFault { return x.faults()[:1] }
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		hold(t, chaosEmbedded(t, few, chaosBinary, kills))
	})
	for i, m := range chaosMistakes() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			// if the webhook pauses for long, all copies may arrive before any message is done
			for try := range 3 {
				plan := few
				plan.form = fmt.Sprintf("mistake-%d-%d", i, try)
				v := chaosEmbedded(t, plan, func() (string, error) { return buildChaos("once-"+plan.form, m.change) }, kills)
				t.Logf("%q", v.Problems)
				if v.Lost+v.Doubled > 0 || slices.ContainsFunc(v.Problems, func(p string) bool { return !strings.HasPrefix(p, "left over") }) {
					return
				}
			}
			t.Error("the judge has noticed nothing")
		})
	}
}
