package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/testkit/freeport"
)

const (
	startTime = 60 * time.Second
	drainTime = 60 * time.Second
)

// A server is the product as a process of its own, in a folder of its own, that can be killed and
// restarted.
type server struct {
	binary string
	// the command that start runs, without its further arguments: "once dev", unless a test sets it
	program []string
	dir     string
	address string
	args    []string // further arguments of program
	env     []string

	mu      sync.Mutex
	process *process
	over    bool // the test has ended: no process is started any more
}

// A process is one start of a server.
type process struct {
	cmd  *exec.Cmd
	gone chan struct{}
}

// run starts the process; gone is closed when it has ended.
func (p *process) run() error {
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = p.cmd.Wait() // its state has the result
		close(p.gone)
	}()
	return nil
}

// over reports whether the process has ended.
func (p *process) over() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// newServer prepares a server with a configuration; it does not start it. When the test ends the
// process is killed, and its folder is kept if the test failed.
func newServer(t *testing.T, binary func() (string, error), configuration string) *server {
	t.Helper()
	path, err := binary()
	must(t, err)
	dir, err := os.MkdirTemp("", "once-e2e") //nolint:usetesting // its path would be too long for the admin socket
	must(t, err)
	s := &server{binary: path, program: []string{path, "dev"}, dir: dir, address: freeport.Address(t)}
	t.Cleanup(func() {
		must(t, s.finish())
		if t.Failed() {
			t.Logf("kept %s; the server's last words:\n%s", dir, s.lastWords())
			return
		}
		must(t, os.RemoveAll(dir))
	})
	must(t, s.configure(configuration))
	return s
}

func (s *server) configure(text string) error {
	return os.WriteFile(s.path("once.yaml"), []byte(text), 0o600)
}

func (s *server) path(name string) string { return filepath.Join(s.dir, name) }

func (s *server) url() string { return "http://" + s.address }

// start starts the process and waits until it is ready.
func (s *server) start() error {
	p, err := s.launch()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	return poll(ctx, 5*time.Millisecond, func() (bool, error) {
		if p.over() {
			return false, fmt.Errorf("server ended by itself (%v):\n%s", p.cmd.ProcessState, s.lastWords())
		}
		return healthy(ctx, s.url()), nil
	})
}

// launch starts the process without waiting.
func (s *server) launch() (*process, error) {
	log, err := os.OpenFile(s.path("server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil, errors.New("the test has ended")
	}
	p := &process{cmd: exec.Command(s.program[0], slices.Concat(s.program[1:], []string{"--listen", s.address}, s.args)...), gone: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = s.dir, log, log
	p.cmd.Env = append(os.Environ(), s.env...)
	if err := p.run(); err != nil {
		return nil, err
	}
	s.process = p
	return p, nil
}

func healthy(ctx context.Context, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/healthz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// kill ends the process by SIGKILL.
func (s *server) kill() error { return s.end(syscall.SIGKILL, drainTime) }

// finish kills the process for the last time.
func (s *server) finish() error {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	return s.kill()
}

// stop asks the process to drain, and returns an error unless it ends with status 0.
func (s *server) stop() error {
	p := s.life()
	// a server that drains waits some seconds for new connections to be used
	connections.CloseIdleConnections()
	if err := s.end(syscall.SIGTERM, drainTime); err != nil || p == nil {
		return err
	}
	if !p.cmd.ProcessState.Success() {
		return fmt.Errorf("after SIGTERM: %v\n%s", p.cmd.ProcessState, s.lastWords())
	}
	return nil
}

func (s *server) end(signal os.Signal, limit time.Duration) error {
	p := s.life()
	if p == nil {
		return nil
	}
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.gone:
		return nil
	case <-time.After(limit):
		return fmt.Errorf("server still runs %v after %v", limit, signal)
	}
}

// life returns the running process, or the last one.
func (s *server) life() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// once runs a command of the product in the server's folder and returns its output.
func (s *server) once(args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.binary, args...)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), s.env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("once %s: %w: %s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, nil
}

// lastWords returns the end of the server's log.
func (s *server) lastWords() string {
	const most = 4 << 10
	data, err := os.ReadFile(s.path("server.log"))
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-most):])
}

// poll calls ask repeatedly until it returns true or an error, or the context ends.
func poll(ctx context.Context, every time.Duration, ask func() (bool, error)) error {
	tick := time.NewTicker(every) // real time: other processes have no channel
	defer tick.Stop()
	for {
		if yes, err := ask(); yes || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waited too long: %w", context.Cause(ctx))
		}
	}
}
