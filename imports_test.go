package once_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestTheRootPackageBringsNoStore keeps Lambda binaries small and a user's go.mod short: what opens a store lives in packages of its own.
func TestTheRootPackageBringsNoStore(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, "github.com/effectively-once/once/internal/lease") {
		t.Fatal("go list names none of the package's own imports")
	}
	allowed := []string{"github.com/effectively-once/once", "github.com/dunglas/httpsfv"}
	for _, dep := range deps {
		first, _, _ := strings.Cut(dep, "/")
		standard := !strings.Contains(first, ".")
		fine := standard || slices.ContainsFunc(allowed, func(a string) bool { return dep == a || strings.HasPrefix(dep, a+"/") })
		if !fine {
			t.Errorf("the root package imports %s", dep)
		}
	}
	for _, store := range []string{"pebbledb", "internal/local", "pebblestore", "embedded"} {
		if slices.ContainsFunc(deps, func(dep string) bool { return strings.HasSuffix(dep, store) }) {
			t.Errorf("the root package imports %s", store)
		}
	}
}
