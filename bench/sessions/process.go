package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// A process is a child that has printed a line when it was ready.
type process struct {
	command *exec.Cmd
	line    string
	exited  chan struct{}
	stderr  bytes.Buffer
}

// start starts a program and waits for its first line.
func start(ctx context.Context, command ...string) (*process, error) {
	p := &process{command: exec.CommandContext(ctx, command[0], command[1:]...), exited: make(chan struct{})} //nolint:gosec // this program
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.command.Stderr = &p.stderr
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	ready := lines.Scan()
	p.line = lines.Text()
	go func() {
		for lines.Scan() {
		}
		_ = p.command.Wait() // killed in most cases
		close(p.exited)
	}()
	if !ready {
		<-p.exited
		return nil, fmt.Errorf("%v has ended: %s", command[:2], p.stderr.String())
	}
	return p, nil
}

func (p *process) kill() {
	_ = p.command.Process.Kill() // it may have ended
	<-p.exited
}

// finish lets the process end its batch, and waits until it exits.
func (p *process) finish() {
	_ = p.command.Process.Signal(syscall.SIGTERM) // it may have ended
	<-p.exited
}

func (p *process) signal(s os.Signal) error { return p.command.Process.Signal(s) }
