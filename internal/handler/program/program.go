// Package program calls a handler that is a program on this machine, for development.
//
// The program reads one request a line from its standard input and writes one answer a line to its
// standard output, in order. A program that can't answer a request writes {"error":"text"}. Its
// standard error is passed on.
//
// # Errors
//
// An error that the program reported is a [*handler.FailedError]. After every other one, and after an
// answer that [handler.CheckAnswer] refuses, the program is killed with all processes that it has
// started. The next call starts it again.
//
// # Limits
//
// There is one call at a time. An answer has at most [handler.MaxAnswer] bytes.
package program

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/handler"
	"github.com/effectively-once/once/internal/record"
)

// Options configure a program. Zero fields take the defaults in their comments.
type Options struct {
	// Command is a command line, for the shell. Required.
	Command string
	// Timeout is how long the program may take for one answer, its start included. Defaults to 10
	// seconds.
	Timeout time.Duration
	// Env is added to the environment, as NAME=VALUE.
	Env []string
	// Stderr gets the standard error of the program. Defaults to discarding.
	Stderr io.Writer
	// Log defaults to discarding.
	Log *slog.Logger
}

// A Program is a [handler.Caller].
type Program struct {
	options Options
	turn    chan struct{} // held by the call that uses process and files
	process *process      // nil if none runs
	files   files         // as they were when process was started
	closed  bool
	closing sync.Once
	killed  chan struct{} // closed by Kill
	killing sync.Once
}

var _ handler.Caller = (*Program)(nil)

// New starts a program, so that its mistakes are seen early. If it ends, the next call starts it
// again.
func New(o Options) (*Program, error) {
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	if o.Stderr == nil {
		o.Stderr = io.Discard
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	p := &Program{options: o, turn: make(chan struct{}, 1), killed: make(chan struct{})}
	if err := p.start(); err != nil {
		return nil, err
	}
	return p, nil
}

// Close ends the program: it closes its standard input, and kills it after a moment.
func (p *Program) Close() error {
	p.closing.Do(func() {
		p.turn <- struct{}{} // a call ends by its timeout
		defer func() { <-p.turn }()
		p.closed = true
		if p.process != nil {
			p.process.stop(p.killed)
			p.process = nil
		}
	})
	return nil
}

// Kill ends the program without a grace period, also while it answers a call, which then fails.
func (p *Program) Kill() {
	p.killing.Do(func() { close(p.killed) })
	_ = p.Close() // it returns nil
}

// errClosed is the error of a call after Close, such as one that began before a reload. The program
// was not asked, so that is no failed try of the message.
var errClosed = fmt.Errorf("%w: the program of the handler has been stopped", record.ErrUntried)

// Call implements [handler.Caller]. If the context ends first, the program still finishes its work,
// and its answer is dropped. See [Program.Kill].
func (p *Program) Call(ctx context.Context, _ string, request []byte) ([]byte, error) {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the program of the handler to answer another request: %w", context.Cause(ctx))
	}
	type result struct {
		answer []byte
		err    error
	}
	done := make(chan result, 1)
	go func() {
		defer func() { <-p.turn }()
		answer, err := p.exchange(request)
		done <- result{answer, err}
	}()
	select {
	case r := <-done:
		return r.answer, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// exchange passes a request to the program and returns its answer. The caller has the turn.
func (p *Program) exchange(request []byte) ([]byte, error) {
	if p.closed {
		return nil, errClosed
	}
	if err := p.ready(); err != nil {
		return nil, err
	}
	line, err := p.process.exchange(request, p.options.Timeout, p.killed)
	if err != nil {
		p.kill()
		return nil, err
	}
	answer, err := p.read(line)
	if err == nil && handler.CheckAnswer(request, answer) != nil {
		p.kill() // it is not known which line answers which request; the handler reports the error
	}
	return answer, err
}

// ready makes sure that a program runs that was started from the present files, and that it has
// written nothing since its last answer.
func (p *Program) ready() error {
	if p.process != nil {
		why := p.process.unusable()
		if why == "" && p.files.changed(p.options.Command) {
			why = "its files have changed"
		}
		if why == "" {
			return nil
		}
		p.options.Log.Info("the program of the handler starts again", "because", why)
		p.kill()
	}
	return p.start()
}

func (p *Program) start() (err error) {
	p.files = filesOf(p.options.Command)
	if p.process, err = start(p.options.Command, p.options.Env, p.options.Stderr); err != nil {
		return fmt.Errorf("start the program of the handler: %w", err)
	}
	return nil
}

func (p *Program) kill() {
	p.process.kill()
	p.process = nil
}

// read returns the answer in a line. A line that is none means that the program uses its standard
// output for something else: then it is not known which line answers which request.
func (p *Program) read(line []byte) ([]byte, error) {
	var failed struct {
		Error *string `json:"error"`
	}
	first := bytes.TrimLeft(line, " \t")
	switch err := json.Unmarshal(line, &failed); {
	case len(first) == 0 || first[0] != '{':
		p.kill()
		return nil, notAnswer(line)
	case err != nil && !json.Valid(line): // such as NaN, which some languages write
		p.kill()
		return nil, fmt.Errorf("%w. The line begins like an answer, but is not JSON: %w", notAnswer(line), err)
	case err == nil && failed.Error != nil:
		return nil, handler.Failed(*failed.Error)
	}
	return line, nil
}

func notAnswer(line []byte) error {
	return fmt.Errorf("the program of the handler wrote %q to its standard output, which is only for answers, one line of JSON each: write other text to standard error",
		record.RejectText(string(line[:min(len(line), maxShown)])))
}

// maxShown is how much of a line errors show, in bytes.
const maxShown = 100
