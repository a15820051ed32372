package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEveryDirectDependencyHasItsReasonAndNoOther(t *testing.T) {
	page, err := os.ReadFile("../docs/dependencies.md")
	must(t, err)
	listed := map[string]bool{}
	for text := range strings.Lines(string(page)) {
		if names, ok := strings.CutPrefix(text, "| `"); ok {
			names, _, _ = strings.Cut(names, "` |")
			for name := range strings.SplitSeq(names, "`, `") {
				listed[name] = true
			}
		}
	}
	required := map[string]bool{}
	for _, dir := range []string{"..", ".", "../bench", "../examples", "../examples/sessions", "../infra", "../prove", "../watermill"} {
		for _, name := range requirements(t, dir) {
			required[name] = true
		}
	}
	for _, dir := range []string{"../packaging/construct", "../packaging/construct/test/typescript", "../clients/typescript", "../examples/languages/typescript"} {
		for _, name := range packages(t, dir) {
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
			t.Errorf("docs/dependencies.md lists %s, which no go.mod and no package.json requires", name)
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

// packages returns the direct dependencies of the package of Node.js in a folder.
func packages(t *testing.T, dir string) (names []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "package.json"))
	must(t, err)
	var p struct{ Dependencies, DevDependencies, PeerDependencies map[string]string }
	must(t, json.Unmarshal(text, &p))
	for _, list := range []map[string]string{p.Dependencies, p.DevDependencies, p.PeerDependencies} {
		names = slices.AppendSeq(names, maps.Keys(list))
	}
	return names
}
