package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestEveryDirectDependencyHasItsReasonAndNoOther(t *testing.T) {
	page, err := os.ReadFile("../docs/dependencies.md")
	must(t, err)
	listed := map[string]bool{}
	for text := range strings.Lines(string(page)) {
		if name, ok := strings.CutPrefix(text, "| `"); ok {
			name, _, _ = strings.Cut(name, "`")
			listed[name] = true
		}
	}
	required := map[string]bool{}
	for _, dir := range []string{"..", ".", "../bench", "../examples/sessions", "../infra", "../watermill"} {
		for _, name := range requirements(t, dir) {
			required[name] = true
		}
	}
	for name := range required {
		if !listed[name] {
			t.Errorf("docs/dependencies.md does not say why %s is needed", name)
		}
	}
	for name := range listed {
		if !required[name] {
			t.Errorf("docs/dependencies.md lists %s, which no go.mod requires", name)
		}
	}
}

// requirements returns the direct dependencies of the module in a folder.
func requirements(t *testing.T, dir string) (names []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json")
	cmd.Dir = dir
	out, err := cmd.Output()
	must(t, err)
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	must(t, json.Unmarshal(out, &mod))
	for _, r := range mod.Require {
		if !r.Indirect && !strings.HasPrefix(r.Path, "github.com/effectively-once/") {
			names = append(names, r.Path)
		}
	}
	return names
}
