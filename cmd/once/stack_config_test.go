package main

import (
	"os"
	"strings"
	"testing"
)

// TestCommandsReadTheDeployedConfiguration has a once.yaml of another system in the working folder.
func TestCommandsReadTheDeployedConfiguration(t *testing.T) {
	aws, _ := deployedStack(t)
	t.Chdir(t.TempDir())
	if err := os.WriteFile(defaultConfig, []byte("streams: {laptop: {}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	run := func(want int, args ...string) string {
		t.Helper()
		if code := w.once(t.Context(), "", append(args, "--stack", "Once")...); code != want {
			t.Errorf("once %v: exit %d, want %d\n%s%s", args, code, want, w.out.String(), w.err.String())
		}
		return w.out.String() + w.err.String()
	}
	if out := run(exitOK, "show"); !strings.Contains(out, "chat") || !strings.Contains(out, "orders") || strings.Contains(out, "laptop") {
		t.Errorf("totals: %q", out)
	}
	run(exitOK, "show", "orders")
	if out := run(exitUnknown, "show", "laptop"); !strings.Contains(out, "in the deployed configuration") {
		t.Errorf("a stream of the folder: %q", out)
	}
	run(exitUnknown, "show", "orders", "--id", "o-1")
	run(exitOK, "sweep")
	run(exitOK, "redrive")
	if out := run(exitIncomplete, "check"); !strings.Contains(out, "configuration") || strings.Contains(out, "laptop") {
		t.Errorf("check: %q", out) // incomplete, because the emulators have no recovery
	}
	aws.Denied = []string{"GetFunction"}
	if out := run(exitRefused, "show"); !strings.Contains(out, "lambda:GetFunction") || !strings.Contains(out, "--config") {
		t.Errorf("without the permission: %q", out)
	}
	run(exitOK, "show", "--config", defaultConfig)
	run(exitOK, "redrive")
	run(exitOK, "show", "--dead-letters")
}
