package overlay_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/testkit/overlay"
)

// module is a program that prints a word.
func module(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module m\n", "main.go": "package main\n\nfunc main() { print(\"one\", \"two\", \"two\") }\n", "empty.go": ""} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestTheCompilerSeesTheChangesAndTheSourceStaysAsItIs(t *testing.T) {
	root := module(t)
	if err := os.Remove(filepath.Join(root, "empty.go")); err != nil {
		t.Fatal(err)
	}
	files, err := overlay.Apply(root, []overlay.Change{
		{File: "main.go", Old: `"one"`, New: "added"}, {File: "main.go", Old: `, "two", "two"`, New: ""}, {File: "added.go", New: "package main\n\nconst added = `three`\n"},
	})
	if err != nil {
		t.Fatal(err)
	}
	list, err := overlay.Write(t.TempDir(), files)
	if err != nil {
		t.Fatal(err)
	}
	for want, flags := range map[string][]string{"three": {"-overlay", list}, "onetwotwo": nil} {
		cmd := exec.CommandContext(t.Context(), "go", append(append([]string{"run"}, flags...), ".")...)
		cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0") // not with the C compiler that the race detector needs
		got, err := cmd.CombinedOutput()                               // print prints to standard error
		if err != nil {
			t.Fatalf("%v: %s", err, got)
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestAChangeThatDoesNotFitIsAnError(t *testing.T) {
	root := module(t)
	for name, c := range map[string]overlay.Change{
		"the text is not there":      {File: "main.go", Old: "four", New: "five"},
		"the text is there twice":    {File: "main.go", Old: `"two"`, New: `"five"`},
		"the file is not there":      {File: "other.go", Old: "one", New: "two"},
		"the file is empty":          {File: "empty.go", Old: "one", New: "two"},
		"the added file is there":    {File: "main.go", New: "package main\n"},
		"the added file is a folder": {File: ".", New: "package main\n"},
	} {
		if files, err := overlay.Apply(root, []overlay.Change{c}); err == nil {
			t.Errorf("%s: %v", name, files)
		}
	}
}
