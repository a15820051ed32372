package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/effectively-once/once/internal/front/access"
	"github.com/effectively-once/once/internal/testkit/concurrent"
	"github.com/effectively-once/once/internal/testkit/eventually"
)

func TestTheConsoleReadsOnALoopbackAddressAndIsOffOnOthersUnlessSet(t *testing.T) {
	for args, want := range map[string]string{ // with --insecure
		"":                                       "read",
		"--listen 127.0.0.2:9":                   "read",
		"--listen localhost:9":                   "read",
		"--listen [::1]:9":                       "read",
		"--listen :9":                            "off",
		"--listen 0.0.0.0:9":                     "off",
		"--listen 192.0.2.1:9":                   "off",
		"--listen 0.0.0.0:9 --console read":      "read",
		"--console off":                          "off",
		"--listen 127.0.0.1:9 --console write":   "write",
		"--console=write --listen 192.0.2.1:433": "write",
	} {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		w.server = &cannedServer{end: cancel}
		if code := w.once(ctx, "", slices.Concat([]string{"dev", "--insecure", "--data", t.TempDir()}, strings.Fields(args))...); code != exitOK {
			t.Errorf("%s: exit %d, %s", args, code, w.err.String())
		}
		printed := strings.Contains(w.err.String(), "/console")
		if string(w.serverOptions.Console) != want || printed != (want != "off") || strings.Contains(w.err.String(), "may write") != (want == "write") {
			t.Errorf("%s: the console is %s, want %s; printed\n%s", args, w.serverOptions.Console, want, w.err.String())
		}
		cancel()
	}
	w := newWorld(t)
	if code := w.once(t.Context(), "", "dev", "--console", "on"); code != exitUsage || !strings.Contains(w.err.String(), `--console "on" must be off, read or write`) {
		t.Errorf("exit %d, %s", code, w.err.String())
	}
}

func TestDevAndServeRefuseOtherMachinesUnlessCallersAreAuthenticated(t *testing.T) {
	const keys = `server: {auth: {keys: "file:DIR/keys"}}`
	for _, c := range []struct {
		server, args string
		starts       bool
	}{
		{"", "dev --listen 127.0.0.1:9", true},
		{"", "dev --listen localhost:9", true},
		{"", "dev --listen [::1]:9", true},
		{"", "dev --listen [::ffff:127.0.0.1]:9", true},
		{"", "dev --listen :9", false},
		{"", "dev --listen 0.0.0.0:9", false},
		{"", "dev --listen [::]:9", false},
		{"", "dev --listen [::ffff:0.0.0.0]:9", false},
		{"", "dev --listen 192.0.2.1:9", false},
		{"", "dev --listen 0.0.0.0:9 --console off", false},
		{"", "dev --listen :9 --insecure", true},
		{keys, "dev --listen :9", false}, // it ignores them
		{keys, "dev --listen :9 --insecure", true},
		{"", "serve --listen :9", false},
		{"", "serve --listen :9 --insecure", true},
		{"server: {listen: \":9\"}", "serve", false},
		{"server: {listen: \":9\"}", "serve --listen 127.0.0.1:9", true},
		{"server: {listen: \":9\", tls: {cert: a, key: b}}", "serve", false},
		{"server: {admin: {key: \"file:DIR/admin\"}}", "serve --listen :9", false}, // operators only
		{keys, "serve --listen :9", true},
		{`server: {auth: {oidc: {issuer: "https://id.example", audience: once}}}`, "serve --listen [::]:9", true},
	} {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		w.server = &cannedServer{end: cancel}
		args := slices.Concat(strings.Fields(c.args), []string{"--data", t.TempDir(), "--config", serverFile(t, c.server)})
		want := exitOK
		if !c.starts {
			want = exitUsage
		}
		if code := w.once(ctx, "", args...); code != want || strings.Contains(w.err.String(), access.ErrExposed.Error()+": listen on 127.0.0.1, or ") == c.starts {
			t.Errorf("%s with %q: exit %d, want %d: %s", c.args, c.server, code, want, w.err.String())
		}
		if remedy := map[bool]string{false: "set server.auth", true: "use once serve"}[strings.HasPrefix(c.args, "dev")]; !c.starts && !strings.Contains(w.err.String(), remedy) {
			t.Errorf("%s with %q: %s, want %q", c.args, c.server, w.err.String(), remedy)
		}
		cancel()
	}
}

// TestANameThatCannotBeResolvedIsNoUsageError keeps a service that starts before the resolver from
// being down for good: the unit restarts it unless the error is one of the configuration.
func TestANameThatCannotBeResolvedIsNoUsageError(t *testing.T) {
	for _, args := range [][]string{
		{"dev", "--listen", "no..name:9"},
		{"serve", "--listen", "no..name:9"},
		{"console", "--stack", "shop", "--listen", "no..name:9"},
	} {
		w := newWorld(t)
		w.server = &cannedServer{}
		if code := w.once(t.Context(), "", args...); code != exitFailed || !strings.Contains(w.err.String(), "resolve the address to listen on") {
			t.Errorf("%q: exit %d: %s", args, code, w.err.String())
		}
	}
}

// TestTheBinaryServesOtherMachinesOnlyIfItIsTold runs the command as a user does.
func TestTheBinaryServesOtherMachinesOnlyIfItIsTold(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"dev", "serve"} {
		cmd := command(t.Context(), name, "--listen", ":0")
		cmd.Dir = dir
		out, _ := cmd.CombinedOutput() // the exit code has the result
		if code := cmd.ProcessState.ExitCode(); code != exitUsage || !strings.Contains(string(out), "once: listen on :0: other machines reach this address") || !strings.Contains(string(out), "--insecure") {
			t.Errorf("%s: exit %d: %s", name, code, out)
		}
		if _, err := os.Stat(filepath.Join(dir, defaultData)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, want no data folder", name, err)
		}
	}
	started(t, dir, regexp.MustCompile(`once is ready at http://127\.0\.0\.1:\d+, and listens on (\[::\]|0\.0\.0\.0):\d+: everybody who reaches that can send, read and delete\n`), "dev", "--listen", ":0", "--insecure")()
	started(t, dir, regexp.MustCompile(`once is ready at http://127\.0\.0\.1:\d+\n`), "dev", "--listen", "127.0.0.1:0")()
	started(t, dir, regexp.MustCompile(`msg=ready url=http://127\.0\.0\.1:\d+ address=(\[::\]|0\.0\.0\.0):\d+ `), "serve", "--listen", ":0", "--insecure")()
}

// started runs a server in a process of its own, and waits until its standard error says that it is
// ready. The server runs until stop is called, or until the test ends.
func started(t *testing.T, dir string, ready *regexp.Regexp, args ...string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	log := &concurrent.Buffer{}
	cmd := command(ctx, args...)
	cmd.Dir, cmd.Stderr = dir, log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		cancel()
		_ = cmd.Wait() // it was interrupted
	})
	t.Cleanup(stop)
	eventually.Succeeds(t, func() error {
		if text := log.String(); !ready.MatchString(text) {
			return fmt.Errorf("nothing matches %s in:\n%s", ready, text)
		}
		return nil
	})
	return stop
}
