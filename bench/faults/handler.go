package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// secretVariable is the variable with the secret that signs the calls of handlers.
const secretVariable = "FAULTS_SECRET"

// handlerSecret signs the calls of handlers.
const handlerSecret = "whsec_ZmF1bHRzIGZhdWx0cyBmYXVsdHMgZmF1bHRz" //nolint:gosec // of a benchmark

// A handler is a process that a function calls over HTTP for each message. It is restarted after it
// was killed.
type handler struct {
	command []string
	env     []string
	address string
	log     tail

	mu  sync.Mutex
	now *os.Process
}

// newHandler returns the handler of a worker, at an address of its own.
func newHandler(command []string) (*handler, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	h := &handler{command: append(slices.Clip(command), port), address: "127.0.0.1:" + port}
	h.env = append(os.Environ(), secretVariable+"="+handlerSecret, "PYTHONDONTWRITEBYTECODE=1")
	return h, nil
}

// nextPort is a port below those of outgoing connections, so that nothing else gets it while the
// handler is down.
var nextPort = struct { //nolint:gochecknoglobals // of the process, as ports are
	sync.Mutex
	port int
}{port: 21_000}

func freePort() (string, error) {
	nextPort.Lock()
	defer nextPort.Unlock()
	for ; nextPort.port < 32_000; nextPort.port++ {
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(nextPort.port)) //nolint:noctx // returns at once
		if err != nil {
			continue
		}
		nextPort.port++
		return strconv.Itoa(nextPort.port - 1), l.Close()
	}
	return "", errors.New("no free port for a handler")
}

// run restarts the process until the context ends.
func (h *handler) run(ctx context.Context) {
	for ctx.Err() == nil {
		command := exec.CommandContext(ctx, h.command[0], h.command[1:]...) //nolint:gosec // programs of this comparison
		command.Env, command.Stdout, command.Stderr = h.env, &h.log, &h.log
		h.mu.Lock()
		err := command.Start()
		h.now = command.Process
		h.mu.Unlock()
		if err == nil {
			err = command.Wait()
		}
		if ctx.Err() == nil && (err == nil || !killedBySignal(err)) {
			fmt.Fprintln(os.Stderr, "faults: handler:", err, h.log.text())
			time.Sleep(time.Second) // it failed by itself
		}
	}
}

func killedBySignal(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signal() == syscall.SIGKILL
}

// ready waits until the handler accepts connections.
func (h *handler) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var dialer net.Dialer
	for {
		c, err := dialer.DialContext(ctx, "tcp", h.address)
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen at %s: %s", h.command[0], h.address, h.log.text())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// process returns the running process.
func (h *handler) process() *os.Process {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}
