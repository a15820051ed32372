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
	"github.com/effectively-once/once/internal/system/embedded"
	"github.com/effectively-once/once/internal/testkit/concurrent"
)

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
	log := &concurrent.Buffer{}
	cmd := command(t.Context(), "serve", "--listen", "127.0.0.1:0")
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
	awaitText(t, "url=", log.String) // what the process wrote before may be read later
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

func TestARemovedKeyIsRefusedAfterAReloadOfAConfigurationWithAMistake(t *testing.T) {
	dir := t.TempDir()
	ann, bob := strings.Repeat("a", 32), strings.Repeat("b", 32)
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const configuration = "streams: {orders: {%s}}\nserver: {listen: \"127.0.0.1:0\", auth: {keys: \"file:keys\"}}\n"
	write("once.yaml", fmt.Sprintf(configuration, ""))
	log := &concurrent.Buffer{}
	cmd := command(t.Context(), "serve")
	cmd.Dir, cmd.Stderr = dir, log
	write("keys", "ann "+ann+"\nbob "+bob+"\n")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	awaitText(t, "url=", log.String)
	_, rest, _ := strings.Cut(log.String(), "url=")
	url, _, _ := strings.Cut(rest, " ")
	status := func(key string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/streams/orders/messages/x", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		return resp.StatusCode
	}
	expect := func(when string, ofAnn, ofBob int) {
		t.Helper()
		if a, b := status(ann), status(bob); a != ofAnn || b != ofBob {
			t.Errorf("%s: got %d and %d, want %d and %d: %s", when, a, b, ofAnn, ofBob, log)
		}
	}
	reload := func(want string) {
		t.Helper()
		before := len(log.String())
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		awaitText(t, want, func() string { return log.String()[before:] })
	}
	expect("at the start", 404, 404)
	for what, more := range map[string]string{"a change that needs a restart": "admission: token", "a mistake": "admision: token"} {
		write("keys", "ann "+ann+"\nbob "+bob+"\n")
		write("once.yaml", fmt.Sprintf(configuration, ""))
		reload("keys and certificates, which were read again")
		expect("before "+what, 404, 404)
		write("keys", "ann "+ann+"\n")
		write("once.yaml", fmt.Sprintf(configuration, more))
		reload("keys and certificates were read again")
		expect("after "+what, 404, 401)
	}
	write("keys", "bob\n")
	reload("keys or certificates not read again, the old ones stay")
	expect("after a list with a mistake", 404, 401)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("serve ended with %v: %s", err, log)
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
	log := &concurrent.Buffer{}
	v := supervised(embedded.Options{Log: slog.New(slog.NewTextHandler(log, nil))}, nil)
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
	v := supervised(embedded.Options{Log: slog.New(slog.DiscardHandler)}, nil)
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

// TestASignalOfTheWatchdogIsNoConfigurationError looks at the status on which the unit for systemd
// does not restart the service.
func TestASignalOfTheWatchdogIsNoConfigurationError(t *testing.T) {
	for traceback, signaled := range map[string]bool{"single": false, "crash": true} {
		socket, told := manager(t)
		cmd := command(t.Context(), "serve", "--listen", "127.0.0.1:0")
		cmd.Dir, cmd.Env = t.TempDir(), append(cmd.Env, "NOTIFY_SOCKET="+socket, "GOTRACEBACK="+traceback)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		told()
		if err := cmd.Process.Signal(syscall.SIGABRT); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // its state has the result
		if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() != signaled || !signaled && status.ExitStatus() != exitUsage {
			t.Errorf("GOTRACEBACK=%s: the status is %v, want one of a signal: %t", traceback, cmd.ProcessState, signaled)
		}
	}
}
