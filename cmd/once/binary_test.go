package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/effectively-once/once/internal/system/embedded"
)

// asCommand is set in the environment of a test binary that is to run as the command.
const asCommand = "ONCE_TEST_AS_COMMAND=1"

func TestMain(m *testing.M) {
	name, value, _ := strings.Cut(asCommand, "=")
	if os.Getenv(name) == value {
		main()
	}
	os.Exit(m.Run())
}

// command returns the command with its arguments, in a process of its own.
func command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand, "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE")) // else the race detector sleeps for 1 s at each exit
	return cmd
}

// TestTheBinaryExitsAsDocumented runs the command as a script does.
func TestTheBinaryExitsAsDocumented(t *testing.T) {
	files, err := filepath.Abs("testdata/files")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&front{taken: map[string]string{}})
	defer server.Close()
	dir := t.TempDir()
	run := func(args ...string) (int, string) {
		cmd := command(t.Context(), args...)
		cmd.Dir, cmd.Env = dir, append(cmd.Env, "ONCE_URL="+server.URL)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(out)
	}
	for _, c := range []struct {
		name string
		code int
		args string
	}{
		{"help", exitOK, "help"},
		{"version", exitOK, "version --json"},
		{"a valid configuration", exitOK, "check --config " + files + "/shop.yaml"},
		{"an accepted message", exitOK, "send orders 1 --key a"},
		{"a folder that is a file", exitFailed, "dev --listen 127.0.0.1:0 --data " + files + "/shop.yaml"},
		{"a flag that is not there", exitUsage, "send orders 1 --colour red"},
		{"a bad configuration", exitUsage, "check --config " + files + "/bad.yaml"},
		{"a bad file", exitUsage, "send orders --file " + files + "/bad.jsonl"},
		{"key reuse", exitRefused, "send orders 2 --key a"},
		{"no server", exitAway, "send orders 1 --key b --url http://127.0.0.1:1 --retry-for 1ms"},
		{"no data folder", exitAway, "show --data nowhere"},
		{"a file that is refused in part", exitIncomplete, "send orders --file " + files + "/refused.jsonl"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if code, out := run(strings.Fields(c.args)...); code != c.code {
				t.Errorf("once %s: exit %d, want %d\n%s", c.args, code, c.code, out)
			}
		})
	}
	t.Run("an address and a folder in use", func(t *testing.T) { inUse(t, run) })
	t.Run("no credentials", func(t *testing.T) { withoutCredentials(t, files) })
	t.Run("an interrupt", func(t *testing.T) { interrupted(t, files) })
}

// inUse starts servers on an address and a folder that this process uses.
func inUse(t *testing.T, run func(...string) (int, string)) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	folder := filepath.Join(t.TempDir(), "data")
	s, err := embedded.Open(embedded.Options{DataDir: folder})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	address, by, stop := listener.Addr().String(), fmt.Sprint("in use by process ", os.Getpid()), ": stop it, or name another "
	for want, args := range map[string][]string{
		"address " + address + " is " + by + ", perhaps another once" + stop + "address with --listen": {"dev", "--listen", address},
		"data folder " + folder + " is " + by + stop + "folder with --data":                            {"dev", "--listen", "127.0.0.1:0", "--data", folder},
	} {
		code, out := run(args...)
		if runtime.GOOS != "linux" { // elsewhere the process of an address is not known
			want, _, _ = strings.Cut(want, "by process")
		}
		if code != exitAway || !strings.Contains(out, want) {
			t.Errorf("%v: exit %d: %s\nwant %s", args, code, out, want)
		}
	}
}

func interrupted(t *testing.T, files string) {
	t.Helper()
	started := make(chan *os.Process, 1)
	var tries atomic.Int32
	// a server without batches gets the messages one by one, so that two of them can be taken
	f := &front{taken: map[string]string{}, old: true, before: func(w http.ResponseWriter, _ *http.Request) bool {
		switch n := tries.Add(1); {
		case n <= 2:
			return false
		case n == 3:
			if err := (<-started).Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
		}
		// tried again until the signal arrives
		refuse(w, http.StatusServiceUnavailable, "unavailable")
		return true
	}}
	server := httptest.NewServer(f)
	defer server.Close()
	cmd := command(t.Context(), "send", "orders", "--file", files+"/good.jsonl", "--concurrency", "1", "--url", server.URL)
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	started <- cmd.Process
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitIncomplete {
		t.Errorf("got %v", err)
	}
	if got := out.String(); got != "5 messages: 2 accepted, 0 replayed, 0 failed, 3 not acknowledged\n" {
		t.Errorf("said %q", got)
	}
}

// withoutCredentials asks a machine's metadata for credentials, as the last resort, and is refused:
// the SDK's own message about that is part of the one error.
func withoutCredentials(t *testing.T, files string) {
	t.Helper()
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer metadata.Close()
	cmd := command(t.Context(), "check", "--stack", "Once", "--config", files+"/shop.yaml")
	cmd.Env = []string{asCommand, "HOME=" + t.TempDir(), "AWS_REGION=us-east-1", "AWS_EC2_METADATA_SERVICE_ENDPOINT=" + metadata.URL}
	out, _ := cmd.CombinedOutput() // the exit code has the result
	if code := cmd.ProcessState.ExitCode(); code != exitUsage || !strings.HasPrefix(string(out), "once: there are no AWS credentials") || strings.Count(string(out), "\n") != 1 {
		t.Errorf("exit %d: %s", code, out)
	}
}
