package bootstrap_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/aws/bootstrap"
)

func TestAProgramForAnotherArchitectureOrWithoutACollectorIsRefused(t *testing.T) {
	folder := t.TempDir()
	source := filepath.Join(folder, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "bootstrap")
	build := exec.CommandContext(t.Context(), "go", "build", "-tags", "nootlp", "-o", path, source)
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	program, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for _, c := range []struct {
		architecture string
		collector    bool
		want         string
	}{
		{"arm64", false, ""},
		{"amd64", false, "is built for EM_AARCH64, and the architecture is amd64"},
		{"arm64", true, "is built with the tag nootlp"},
	} {
		err := bootstrap.Check(program, c.architecture, c.collector)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, collector %v: %v", c.architecture, c.collector, err)
		}
	}
	if err := bootstrap.Check(strings.NewReader("#!/bin/sh\n"), "amd64", true); err != nil {
		t.Errorf("a script: %v", err)
	}
}
