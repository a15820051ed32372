// Package child starts the processes of a benchmark, which are killed and stopped.
package child

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// A Process is a child that has printed a line when it was ready.
type Process struct {
	Line    string // the line
	command *exec.Cmd
	exited  chan struct{}
	stderr  bytes.Buffer
}

// Start starts a program and waits for its first line.
func Start(ctx context.Context, command ...string) (*Process, error) {
	p := &Process{command: exec.CommandContext(ctx, command[0], command[1:]...), exited: make(chan struct{})} //nolint:gosec // this program
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
	p.Line = lines.Text()
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

// Kill kills the process with SIGKILL, and waits until it has ended.
func (p *Process) Kill() {
	_ = p.command.Process.Kill() // it may have ended
	<-p.exited
}

// Finish lets the process end its work, and waits until it has ended.
func (p *Process) Finish() {
	_ = p.command.Process.Signal(syscall.SIGTERM) // it may have ended
	<-p.exited
}

// Signal sends a signal.
func (p *Process) Signal(s os.Signal) error { return p.command.Process.Signal(s) }

// Pid returns the number of the process.
func (p *Process) Pid() int { return p.command.Process.Pid }
