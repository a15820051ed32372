package bootstrap_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/aws/bootstrap"
)

func TestAProgramForAnotherArchitectureIsRefused(t *testing.T) {
	folder := t.TempDir()
	source := filepath.Join(folder, "main.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "bootstrap")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, source)
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	program, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for architecture, want := range map[string]string{"arm64": "", "amd64": "is built for EM_AARCH64, and the architecture is amd64"} {
		err := bootstrap.Check(program, architecture)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", architecture, err)
		}
	}
	if err := bootstrap.Check(strings.NewReader("#!/bin/sh\n"), "amd64"); err != nil {
		t.Errorf("a script: %v", err)
	}
}
