package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/config"
)

func TestCommandsPrintTheOutputOfTheTraces(t *testing.T) {
	for _, name := range []string{"check", "send", "send_file", "look", "help"} {
		t.Run(name, func(t *testing.T) { newWorld(t).trace(t, "testdata/"+name+".txt") })
	}
}

func TestEveryCommandHasHelpWithAnExampleAndJSONIfItPrintsData(t *testing.T) {
	root := (&app{}).root()
	commands := root.Commands()
	for _, cmd := range root.Commands() {
		commands = append(commands, cmd.Commands()...)
	}
	for _, cmd := range commands {
		if cmd.Name() == "exit-codes" || cmd.Hidden { // for people only
			continue
		}
		if cmd.Short == "" || cmd.Example == "" {
			t.Errorf("%s has no help or no example", cmd.Name())
		}
		if !slices.Contains([]string{"dev", "serve", "console"}, cmd.Name()) && !cmd.HasSubCommands() && cmd.Flags().Lookup("json") == nil {
			t.Errorf("%s has no --json", cmd.Name())
		}
		for line := range strings.SplitSeq(cmd.Example, "\n") {
			checkExample(t, root, line)
		}
	}
}

// checkExample parses the flags of an example, so that help never shows a flag that does not exist.
func checkExample(t *testing.T, root *cobra.Command, line string) {
	t.Helper()
	_, line, ok := strings.Cut(line, "once ")
	if !ok {
		t.Errorf("no command in %q", line)
		return
	}
	line, _, _ = strings.Cut(line, " #")
	line, _, _ = strings.Cut(line, " |")
	cmd, args, err := root.Find(words(line))
	if err != nil || cmd == root {
		t.Errorf("%q: %v", line, err)
		return
	}
	if err := cmd.ParseFlags(args); err != nil {
		t.Errorf("%q: %v", line, err)
	}
}

// cannedServer runs until it is told to end.
type cannedServer struct {
	end    context.CancelFunc
	closed bool
}

func (s *cannedServer) Run(ctx context.Context, ready func(string)) error {
	ready("[::]:8081")
	s.end()
	<-ctx.Done()
	return nil
}

func (s *cannedServer) Close() error { s.closed = true; return nil }

func TestDevGreetsRunsUntilInterruptedAndCloses(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	s := &cannedServer{end: cancel}
	w.server = s
	// fixed port: the server of this test does not listen
	if code := w.once(ctx, "", "dev", "--config", "testdata/files/shop.yaml", "--data", "/tmp/x", "--listen", ":8081", "--insecure"); code != 0 || !s.closed {
		t.Errorf("exit %d, closed %v: %s", code, s.closed, w.err.String())
	}
	golden(t, "testdata/greeting.txt", w.err.String())
	w.openErr = errors.New("open data folder: locked")
	if code := w.once(t.Context(), "", "dev"); code != exitFailed {
		t.Errorf("exit %d", code)
	}
	if code := w.once(t.Context(), "", "dev", "--config", "testdata/files/bad.yaml"); code != exitUsage {
		t.Errorf("exit %d", code)
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got)\n%s", path, d)
	}
}

func TestShowAsksTheServerThatRunsOnTheFolder(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Mkdir(".once", 0o700); err != nil {
		t.Fatal(err)
	}
	listener, err := admin.Listen(t.Context(), ".once")
	if err != nil {
		t.Fatal(err)
	}
	listener.(*net.UnixListener).SetUnlinkOnClose(false) // the state after kill -9
	running := newCannedFolder()
	running.failed = 2
	server := &http.Server{Handler: admin.Handler(running), ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Close() }()
	if code := w.once(t.Context(), "", "sweep"); code != exitIncomplete || !strings.Contains(w.out.String(), "2 failed") {
		t.Errorf("exit %d: %s%s", code, w.out.String(), w.err.String())
	}
	if code := w.once(t.Context(), "", "redrive"); code != exitIncomplete {
		t.Errorf("exit %d: %s%s", code, w.out.String(), w.err.String())
	}
	if w.folder.closed {
		t.Error("the folder was opened")
	}
	_ = server.Close()
	if code := w.once(t.Context(), "", "sweep"); code != 0 || !w.folder.closed {
		t.Errorf("afterwards: exit %d, closed %v: %s", code, w.folder.closed, w.err.String())
	}
}

func TestExitCodesFollowTheError(t *testing.T) {
	for want, errs := range map[int][]error{
		exitFailed:  {errors.New("disk on fire")},
		exitUnknown: {fmt.Errorf("group: %w", admin.ErrNotFound)},
		exitUsage:   {&config.InvalidError{}, notThere(os.ErrNotExist)},
		exitRefused: {fmt.Errorf("send: %w", &client.Problem{Status: 422}), fmt.Errorf("send: %w", &client.Problem{Type: client.Forbidden, Status: 403})},
		exitAway: {
			fmt.Errorf("send: %w", &client.UnacknowledgedError{Err: &client.Problem{Status: 503}}),
			fmt.Errorf("send: %w", &client.Problem{Status: 202, Ambiguous: true}), fmt.Errorf("send: %w", &client.Problem{Status: 302, Ambiguous: true}),
			fmt.Errorf("send: %w", &client.Problem{Status: 403, Ambiguous: true}),
			fmt.Errorf("send: %w", &client.Problem{Type: client.KeyReuse, Status: 422, Ambiguous: true}),
		},
		exitIncomplete: {context.Canceled, &exitError{code: exitIncomplete}},
	} {
		for _, err := range errs {
			if got := codeOf(err); got != want {
				t.Errorf("%v: exit %d, want %d", err, got, want)
			}
		}
	}
}

func TestTheVersionComesFromTheBuild(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-01-01T00:00:00Z"}, {Key: "vcs.modified", Value: "true"},
	}}
	want := build{Version: "v1.2.3", Revision: "abc", Time: "2026-01-01T00:00:00Z", Modified: true, Go: "go1.26.0"}
	if d := cmp.Diff(want, built(info, true)); d != "" {
		t.Error(d)
	}
	release = "v1.3.0"
	defer func() { release = "" }()
	want.Version = release
	if d := cmp.Diff(want, built(info, true)); d != "" {
		t.Errorf("the version that the linker set must win (-want +got)\n%s", d)
	}
	w := newWorld(t)
	if code := w.once(t.Context(), "", "version"); code != 0 || !strings.HasPrefix(w.out.String(), "once ") {
		t.Errorf("exit %d: %s", code, w.out.String())
	}
}

func TestStreamNamesAreCompletedFromTheConfiguration(t *testing.T) {
	w := newWorld(t)
	for _, args := range [][]string{{"__complete", "show", "--config", "testdata/files/shop.yaml", ""}, {"__complete", "send", ""}} {
		if code := w.once(t.Context(), "", args...); code != 0 {
			t.Fatalf("exit %d", code)
		}
		want := []string{"chat", "idle", "orders"}
		if args[1] == "send" {
			want = []string{"messages"}
		}
		if got := strings.Fields(w.out.String()); !slices.Equal(got[:len(got)-1], want) {
			t.Errorf("%v: %v", args, got)
		}
	}
}

func TestTheValuesOfFlagsAreCompleted(t *testing.T) {
	for args, want := range map[string]string{
		"redrive --reason": "rejected", "redrive --queue": "ingress-dead.fifo", "show --reason": "key-reuse", "drop --queue": "publish-dead", "dev --log-level": "debug",
	} {
		w := newWorld(t)
		code := w.once(t.Context(), "", append(append([]string{"__complete"}, strings.Fields(args)...), "")...)
		if got := strings.Fields(w.out.String()); code != 0 || !slices.Contains(got, want) {
			t.Errorf("%s: exit %d: %v", args, code, got)
		}
	}
}

func TestANoticeOfARetryReplacesTheLineOfTheProgressBar(t *testing.T) {
	w := newWorld(t)
	w.terminal = true
	var tries atomic.Int32
	w.front.before = func(rw http.ResponseWriter, _ *http.Request) bool {
		away := tries.Add(1) == 1
		if away {
			refuse(rw, http.StatusServiceUnavailable, "unavailable")
		}
		return away
	}
	code := w.once(t.Context(), "", "send", "orders", "--file", "testdata/files/good.jsonl", "--concurrency", "1")
	before, _, found := strings.Cut(w.err.String(), "not acknowledged yet, trying again")
	if code != 0 || !found || !strings.HasSuffix(before, "\r\x1b[K") {
		t.Errorf("exit %d: %q", code, w.err.String())
	}
}

func FuzzParseLine(f *testing.F) {
	for _, path := range []string{"testdata/files/good.jsonl", "testdata/files/bad.jsonl"} {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			f.Add(line)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := newLineReader(strings.NewReader(text), "orders", func(n int) string { return strconv.Itoa(n) })
		for last := 0; ; {
			l, err := r.next()
			var bad *lineError
			if err != nil && !errors.As(err, &bad) {
				return
			}
			if err != nil {
				l.number = bad.number
			} else if again := validate(l.message); again != nil {
				t.Fatalf("a message that is not valid: %v", again)
			}
			if l.number <= last {
				t.Fatalf("line %d after %d", l.number, last)
			}
			last = l.number
		}
	})
}
