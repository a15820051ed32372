//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/config"
)

// A watcher is the output of a process.
type watcher struct {
	mu   sync.Mutex
	text strings.Builder
}

func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *watcher) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// manager is the socket of a service manager.
func manager(t *testing.T) (path string, next func() string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "once") //nolint:usetesting // the path of t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path = filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return path, func() string {
		t.Helper()
		buffer := make([]byte, 4096)
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		for {
			n, err := conn.Read(buffer)
			if err != nil {
				t.Fatalf("the service manager was told nothing for a minute: %v", err)
			}
			if text := string(buffer[:n]); text != "WATCHDOG=1" {
				return text
			}
		}
	}
}

// TestServeReloadsAndTellsTheServiceManager runs the real binary under the protocol of systemd.
func TestServeReloadsAndTellsTheServiceManager(t *testing.T) {
	var arrived sync.Map
	receiver := func(name string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { arrived.Store(name+" "+r.Header.Get("webhook-id"), true) }))
		t.Cleanup(s.Close)
		return s
	}
	a, b := receiver("a"), receiver("b")
	dir := t.TempDir()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "once.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configured := func(url, more string) string {
		return fmt.Sprintf("streams: {orders: {destinations: [shop]%s}}\ndestinations: {shop: {webhook: %q}}\n", more, url)
	}
	write(configured(a.URL, ""))
	socket, told := manager(t)
	log := &watcher{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := command(ctx, "serve", "--listen", "127.0.0.1:0")
	cmd.Dir, cmd.Stderr = dir, log
	// systemd sets WATCHDOG_PID to the process that it starts; without it, every process is meant
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+socket, "WATCHDOG_USEC=400000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if got := told(); got != "READY=1" {
		t.Fatalf("told %q, want READY=1: %s", got, log)
	}
	awaitText(t, " auth=", log.String) // on the same line, after the address
	_, rest, _ := strings.Cut(log.String(), "url=")
	url, _, _ := strings.Cut(rest, " ")
	c, err := client.New(url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	send := func(group, to string) {
		t.Helper()
		if _, err := c.Send(t.Context(), client.Message{Stream: "orders", Group: group, Key: group, Body: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		awaitText(t, "true", func() string { _, ok := arrived.Load(to + " orders/" + group + "/1"); return strconv.FormatBool(ok) })
	}
	reload := func(want string) {
		t.Helper()
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		at, found := strings.CutPrefix(told(), "RELOADING=1\nMONOTONIC_USEC=")
		if _, err := strconv.ParseUint(strings.TrimSpace(at), 10, 64); !found || err != nil {
			t.Errorf("told %q, want RELOADING=1 with the time", at)
		}
		if got := told(); !strings.HasPrefix(got, "READY=1\nSTATUS=configuration ") {
			t.Errorf("told %q, want READY=1", got)
		}
		awaitText(t, want, log.String)
	}
	send("g1", "a")
	write(configured(b.URL, ", retry: {for: 1h}"))
	reload(`level=INFO msg="configuration reloaded" changed="streams.orders.retry.for, destinations.shop.webhook"`)
	send("g2", "b")
	write(configured(a.URL, ", admission: token"))
	reload(`level=ERROR msg="configuration not reloaded, the old one stays: restart to apply" fields=streams.orders.admission`)
	send("g3", "b")
	write(configured(a.URL, ", destinatoins: []"))
	reload("streams.orders.destinatoins: unknown field")
	send("g4", "b")
	write(configured(b.URL, ", retry: {for: 1h}"))
	reload("nothing but keys and certificates, which were read again")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := told(); got != "STOPPING=1" {
		t.Errorf("told %q, want STOPPING=1", got)
	}
	if err := <-ended; err != nil {
		t.Errorf("serve ended with %v: %s", err, log)
	}
}

// TestServeReadsKeysAgainIfTheConfigurationHasAMistake removes a key, and reloads with a
// configuration that is refused.
func TestServeReadsKeysAgainIfTheConfigurationHasAMistake(t *testing.T) {
	const stays, removed = "0123456789abcdef0123456789", "fedcba9876543210fedcba9876"
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const valid = "streams: {orders: {}}\nserver: {auth: {keys: 'file:keys.txt'}}\n"
	write("once.yaml", valid)
	log := &watcher{}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	write("keys.txt", "shop "+stays+"\nuntil "+removed+"\n")
	cmd := command(ctx, "serve", "--listen", "127.0.0.1:0")
	cmd.Dir, cmd.Stderr = dir, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = cmd.Wait()
	}()
	awaitText(t, "msg=ready url=", log.String)
	_, rest, _ := strings.Cut(log.String(), "msg=ready url=")
	url, _, _ := strings.Cut(rest, " ")
	status := func(key string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/streams/orders/messages/none", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", key)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	reads := 0
	reload := func(yaml, keys string) {
		t.Helper()
		write("once.yaml", yaml)
		write("keys.txt", keys)
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		reads++
		awaitText(t, strconv.Itoa(reads), func() string { return strconv.Itoa(strings.Count(log.String(), "read again")) })
	}
	for name, mistaken := range map[string]string{"unknown field": valid + "destinatoins: {}\n", "needs a restart": valid + "name: other\n"} {
		reload(valid, "shop "+stays+"\nuntil "+removed+"\n")
		if got := status(removed); got != http.StatusNotFound {
			t.Fatalf("%s: a key that is listed got %d", name, got)
		}
		reload(mistaken, "shop "+stays+"\n")
		if got := status(removed); got != http.StatusUnauthorized {
			t.Errorf("%s: a key that was removed got %d, want 401: %s", name, got, log)
		}
		if got := status(stays); got != http.StatusNotFound {
			t.Errorf("%s: a key that is listed still got %d", name, got)
		}
	}
}

// TestTheWatchdogIsServedWhileTheSystemMakesProgress supervises a system that stops to.
func TestTheWatchdogIsServedWhileTheSystemMakesProgress(t *testing.T) {
	socket, _ := manager(t)
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket + "2", Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	t.Setenv("NOTIFY_SOCKET", socket+"2")
	t.Setenv("WATCHDOG_USEC", "20000")
	log := &watcher{}
	v := supervised(serverOptions{Log: slog.New(slog.NewTextHandler(log, nil))}, nil)
	close(v.ready)
	ended, done := make(chan struct{}), make(chan struct{})
	s := &stalling{}
	go func() {
		defer close(done)
		v.run(t.Context(), s, ended)
	}()
	read := func() string {
		buffer := make([]byte, 100)
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		n, _ := conn.Read(buffer)
		return string(buffer[:n])
	}
	for _, want := range []string{"READY=1", "WATCHDOG=1", "WATCHDOG=1"} {
		if got := read(); got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	s.stalled.Store(true)
	awaitText(t, "makes no progress", log.String)
	s.stalled.Store(false)
	if got := read(); got != "WATCHDOG=1" {
		t.Errorf("told %q, want WATCHDOG=1 when it makes progress again", got)
	}
	close(ended)
	<-done
	if told := s.told.Load(); told == 0 {
		t.Error("the system was never asked")
	}
}

// TestAHangupAtTheEndDoesNotEndTheProcess sends SIGHUP when the server has ended, but not yet the
// process. Without a handler, this process ends.
func TestAHangupAtTheEndDoesNotEndTheProcess(t *testing.T) {
	v := supervised(serverOptions{Log: slog.New(slog.DiscardHandler)}, nil)
	close(v.ready)
	ended := make(chan struct{})
	close(ended)
	v.run(t.Context(), &stalling{}, ended)
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	<-v.hangups
}

// stalling is a server that makes no progress when it is told so.
type stalling struct {
	stalled atomic.Bool
	told    atomic.Int32
}

func (s *stalling) Reconfigure(context.Context, *config.Config) ([]string, error) { return nil, nil }

func (s *stalling) Reload() error { return nil }

func (s *stalling) Alive(context.Context) error {
	s.told.Add(1)
	if s.stalled.Load() {
		return errors.New("no write")
	}
	return nil
}
