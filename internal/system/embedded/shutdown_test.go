package embedded_test

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
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/embedded"
)

func TestAPortInUseIsAnErrorAtTheStart(t *testing.T) {
	t.Parallel()
	taken := httptest.NewServer(http.NotFoundHandler())
	defer taken.Close()
	s, err := embedded.Open(embedded.Options{Config: &config.Config{}, DataDir: t.TempDir(), Listen: taken.Listener.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("run: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestAWaitingCallerGets202WhenTheSystemEnds(t *testing.T) {
	t.Parallel()
	p := &place{t: t, dir: t.TempDir(), config: `
streams:
  chat: {admission: sequence, destinations: [ledger]}
destinations:
  ledger: {file: DIR/ledger.jsonl}
`}
	r := p.start()
	answered := make(chan error, 1)
	go func() {
		receipt, err := r.client.Send(context.Background(), client.Message{Stream: "chat", Source: "ann", Sequence: 2, Body: []byte("2"), Wait: time.Minute})
		if err == nil && receipt.Status != "accepted" {
			err = fmt.Errorf("status %s", receipt.Status)
		}
		answered <- err
	}()
	for held := 0; held == 0; {
		stats, err := r.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		held = stats.Held
	}
	r.stop()
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestADataFolderThatAnotherProcessHasOpenIsLocked(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv("ONCE_TEST_LOCKED_FOLDER"); dir != "" {
		if _, err := embedded.Open(embedded.Options{DataDir: dir}); !errors.Is(err, embedded.ErrLocked) || !strings.Contains(err.Error(), dir) {
			t.Errorf("open: %v", err)
		}
		return
	}
	dir := filepath.Join(t.TempDir(), "data")
	s, err := embedded.Open(embedded.Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestADataFolderThatAnother")
	child.Env = append(os.Environ(), "ONCE_TEST_LOCKED_FOLDER="+dir)
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("in the other process: %v\n%s", err, out)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestUnusedConnectionsDoNotDelayTheEnd stops a system with connections that have had no request. A
// server waits five seconds for these.
func TestUnusedConnectionsDoNotDelayTheEnd(t *testing.T) {
	t.Parallel()
	for try := 1; ; try++ {
		took := stopWithUnusedConnections(t)
		if took < 5*time.Second {
			return
		}
		if try == 5 { // or the machine was busy each time
			t.Fatalf("stopping took %s", took)
		}
	}
}

func stopWithUnusedConnections(t *testing.T) time.Duration {
	t.Helper()
	p := &place{t: t, dir: t.TempDir(), config: forwarding}
	r := p.start()
	var dialer net.Dialer
	connect := func(network, address string) net.Conn {
		c, err := dialer.DialContext(t.Context(), network, address)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for range 3 {
		defer connect("tcp", r.address).Close()
		defer connect("unix", admin.Socket(filepath.Join(p.dir, "data"))).Close()
	}
	// connections are accepted in order: the earlier ones have been accepted now
	r.send(t, client.Message{Stream: "orders", Key: "a", Body: []byte("1")})
	begun := time.Now()
	r.stop()
	return time.Since(begun) // real time: of net/http, on real sockets of both kinds
}

// callAndDie runs in the child process of the test below.
func callAndDie(dir string) {
	p := &place{t: &testing.T{}, dir: dir, config: forwarding}
	c, err := config.Parse("test", []byte(strings.ReplaceAll(p.config, "DIR", dir)))
	if err != nil {
		panic(err)
	}
	s, err := embedded.Open(embedded.Options{Config: c, DataDir: filepath.Join(dir, "data")})
	if err != nil {
		panic(err)
	}
	engine, err := s.Start(nil)
	if err != nil {
		panic(err)
	}
	if o := engine.Call(context.Background(), record.Message{Stream: "orders", ID: "a", Body: []byte("x")}); o.Kind != record.Processed {
		panic(fmt.Sprintf("%+v", o))
	}
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Kill()
	}
	select {}
}

func TestAMessageAnsweredAsDoneSurvivesAKill(t *testing.T) {
	t.Parallel()
	if dir := os.Getenv("ONCE_TEST_CALL_AND_DIE"); dir != "" {
		callAndDie(dir)
	}
	p := &place{t: t, dir: t.TempDir(), config: forwarding}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), "ONCE_TEST_CALL_AND_DIE="+p.dir)
	if out, err := child.CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the child: %v\n%s", err, out)
	}
	r := p.start()
	r.stop()
	if lines := p.lines(); len(lines) != 1 || lines[0].ID != "a" {
		t.Errorf("lines: %+v", lines)
	}
}
