package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"sync"
	"syscall"
)

// The lines that a consumer prints.
const (
	eventOpen   = "open"   // it holds the session
	eventFenced = "fenced" // another consumer has opened the session; it exits
	eventEnd    = "end"    // the session has ended; it exits
)

// A process is a program that this one has started, and the lines that it has printed.
type process struct {
	command *exec.Cmd
	exited  chan struct{}

	mu      sync.Mutex
	lines   []string
	changed chan struct{} // closed with the next line
	killed  bool
	stderr  bytes.Buffer
}

func start(ctx context.Context, command ...string) (*process, error) {
	p := &process{command: exec.CommandContext(ctx, command[0], command[1:]...), exited: make(chan struct{}), changed: make(chan struct{})} //nolint:gosec // programs of this example
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.command.Stderr = &p.stderr
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	go p.read(out)
	return p, nil
}

// read collects the lines until the process has ended.
func (p *process) read(out io.Reader) {
	for s := bufio.NewScanner(out); s.Scan(); {
		p.mu.Lock()
		p.lines = append(p.lines, s.Text())
		close(p.changed)
		p.changed = make(chan struct{})
		p.mu.Unlock()
	}
	_ = p.command.Wait() // how it has ended is seen from its lines
	close(p.exited)
}

// await waits for the first line that accept returns true for.
func (p *process) await(ctx context.Context, accept func(line string) bool) (string, error) {
	for {
		p.mu.Lock()
		i := slices.IndexFunc(p.lines, accept)
		changed := p.changed
		if i >= 0 {
			defer p.mu.Unlock()
			return p.lines[i], nil
		}
		p.mu.Unlock()
		select {
		case <-changed:
		case <-p.exited:
			if line, ok := p.printed(accept); ok {
				return line, nil
			}
			return "", fmt.Errorf("the process %d has ended: %s", p.command.Process.Pid, p.stderr.String())
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// is returns a function that accepts one of the lines.
func is(lines ...string) func(string) bool {
	return func(line string) bool { return slices.Contains(lines, line) }
}

func (p *process) printed(accept func(string) bool) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.lines, accept)
	if i < 0 {
		return "", false
	}
	return p.lines[i], true
}

func (p *process) stop() error { return p.command.Process.Signal(syscall.SIGSTOP) }

// proceed lets a stopped process go on. It may be running, or have ended since.
func (p *process) proceed() { _ = p.command.Process.Signal(syscall.SIGCONT) }

func (p *process) wasKilled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.killed
}

// kill ends the process with SIGKILL, and waits until it has ended.
func (p *process) kill() {
	p.mu.Lock()
	p.killed = true
	p.mu.Unlock()
	_ = p.command.Process.Kill() // it may have ended already
	<-p.exited
}
