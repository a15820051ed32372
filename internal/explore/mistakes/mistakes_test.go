package mistakes_test

import (
	"flag"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/effectively-once/once/internal/explore/mistakes"
)

var only = flag.String("mistake", "", "make only mistakes whose names contain this")

func TestEveryKnownMistakeIsCaught(t *testing.T) {
	list, err := mistakes.Load(os.DirFS("testdata"), "mistakes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	for _, m := range list {
		if !strings.Contains(m.Name, *only) {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			c, err := mistakes.Make(t.Context(), "../../..", m)
			if err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			defer mu.Unlock()
			t.Logf("%s: %d steps: %s", c.By, c.Steps, c.Wrong)
			if testing.Verbose() {
				t.Log(strings.Join(c.Trace, "\n"))
			}
		})
	}
}
