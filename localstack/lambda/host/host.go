// Package host runs Lambda functions as processes. It implements the Lambda Runtime API for the
// bootstrap binaries, so that the deployed binaries themselves are run.
//
// # Limits
//
// An instance serves one invocation at a time, as an execution environment does; a pool has one
// instance for each concurrent invocation. A process ends by Close, by Kill, by itself, or when an
// invocation exceeds its timeout; then the next invocation starts a new one. Processes are not
// frozen between invocations.
package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// DefaultTimeout is the default timeout of an invocation.
const DefaultTimeout = 30 * time.Second

// Options configure an instance. Zero fields take the defaults in their comments.
type Options struct {
	// Name of the function, in its ARN. Defaults to "function".
	Name string
	// Env is added to the environment of this process.
	Env []string
	// Timeout of one invocation, after which the process is killed. Defaults to DefaultTimeout.
	Timeout time.Duration
	// Output receives the output and logs of the function. Defaults to discarding them.
	Output io.Writer
	// Now defaults to time.Now.
	Now func() time.Time
}

// The errors of an invocation.
var (
	ErrTimeout = errors.New("function timed out")
	ErrExited  = errors.New("function's process ended")
)

// A FunctionError is the error that a function's handler returned.
type FunctionError struct{ Type, Message string }

func (e *FunctionError) Error() string { return e.Type + ": " + e.Message }

// An Instance is one function with at most one process.
type Instance struct {
	bootstrap string
	options   Options

	turn sync.Mutex // one invocation at a time

	mu      sync.Mutex
	process *process // nil before the first invocation, and after one that ended the process
}

// New returns an instance of a bootstrap binary. The first invocation starts it.
func New(bootstrap string, o Options) *Instance {
	if o.Name == "" {
		o.Name = "function"
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Output == nil {
		o.Output = io.Discard
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Instance{bootstrap: bootstrap, options: o}
}

// Invoke invokes the function with an event and returns its response. In addition to the errors
// above it may return the context's error: if the context ends, the process is killed without
// warning; the function's own deadline is that of the timeout.
func (i *Instance) Invoke(ctx context.Context, event []byte) ([]byte, error) {
	i.turn.Lock()
	defer i.turn.Unlock()
	p, err := i.running()
	if err != nil {
		return nil, err
	}
	deadline := i.options.Now().Add(i.options.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, i.options.Timeout, ErrTimeout)
	defer cancel()
	answer, err := p.invoke(ctx, event, deadline)
	if _, returned := errors.AsType[*FunctionError](err); err != nil && !returned {
		i.end()
	}
	if err != nil {
		return nil, fmt.Errorf("invoke function %s: %w", i.options.Name, err)
	}
	return answer, nil
}

// Start starts the process, if none runs, and waits until it asks for an event. If the process ends
// before that, it returns ErrExited.
func (i *Instance) Start(ctx context.Context) error {
	i.turn.Lock()
	defer i.turn.Unlock()
	p, err := i.running()
	if err != nil {
		return err
	}
	select {
	case <-p.asked:
		return nil
	case <-p.exited:
		err = ErrExited
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return fmt.Errorf("start function %s: %w", i.options.Name, err)
}

// running returns the process. If none is alive, it starts one.
func (i *Instance) running() (*process, error) {
	if p := i.current(); p != nil && !p.over() {
		return p, nil
	}
	i.end()
	p, err := i.start()
	if err != nil {
		return nil, fmt.Errorf("start function %s: %w", i.options.Name, err)
	}
	i.set(p)
	return p, nil
}

func (i *Instance) current() *process {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.process
}

func (i *Instance) set(p *process) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.process = p
}

// end ends the process. The caller holds turn.
func (i *Instance) end() {
	if p := i.current(); p != nil {
		p.kill()
		i.set(nil)
	}
}

// Kill kills the process, in any state, and reports whether there was one. An invocation in
// progress fails with ErrExited.
func (i *Instance) Kill() bool {
	p := i.current()
	if p == nil || p.over() || p.command.Process.Kill() != nil {
		return false
	}
	<-p.exited
	return true
}

// Close ends the process, after the invocation in progress.
func (i *Instance) Close() error {
	i.turn.Lock()
	defer i.turn.Unlock()
	i.end()
	return nil
}

// An invocation is one event to be processed.
type invocation struct {
	id       string
	event    []byte
	deadline time.Time
	answer   chan answer // buffered for one answer
}

type answer struct {
	body []byte
	err  error
}

// A process is a running bootstrap and the API that it calls.
type process struct {
	arn     string
	command *exec.Cmd
	server  *http.Server
	next    chan *invocation
	asked   chan struct{} // closed when it has asked for its first event
	once    sync.Once
	exited  chan struct{}

	mu      sync.Mutex
	current *invocation
}

func (i *Instance) start() (*process, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it returns at once
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	p := &process{
		arn: "arn:aws:lambda:local:000000000000:function:" + i.options.Name, next: make(chan *invocation), asked: make(chan struct{}), exited: make(chan struct{}),
		command: exec.Command(i.bootstrap), //nolint:gosec,noctx // the operator names it; kill ends it
	}
	p.server = &http.Server{Handler: p.api(), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = p.server.Serve(listener) }() // returns an error after Close
	p.command.Stdout, p.command.Stderr = i.options.Output, i.options.Output
	p.command.Env = append(os.Environ(), "AWS_LAMBDA_RUNTIME_API="+listener.Addr().String(), "AWS_LAMBDA_FUNCTION_NAME="+i.options.Name, "_HANDLER=bootstrap")
	p.command.Env = append(p.command.Env, i.options.Env...)
	if err := p.command.Start(); err != nil {
		return nil, errors.Join(err, p.server.Close())
	}
	go func() {
		_ = p.command.Wait() // its output shows how it ended
		close(p.exited)
	}()
	return p, nil
}

// over reports whether the process has ended.
func (p *process) over() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// kill kills the process, as Lambda does.
func (p *process) kill() {
	_ = p.command.Process.Kill() // it may have ended already
	<-p.exited
	_ = p.server.Close() // the process is gone
}

func (p *process) invoke(ctx context.Context, event []byte, deadline time.Time) ([]byte, error) {
	in := &invocation{id: uuid.NewString(), event: event, deadline: deadline, answer: make(chan answer, 1)}
	next := p.next
	for {
		select {
		case next <- in:
			next = nil
		case a := <-in.answer:
			return a.body, a.err
		case <-p.exited:
			return nil, ErrExited
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// api returns the Lambda Runtime API.
func (p *process) api() http.Handler {
	const root = "/2018-06-01/runtime"
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+root+"/invocation/next", p.serveNext)
	mux.HandleFunc("POST "+root+"/invocation/{id}/response", p.serveResponse)
	mux.HandleFunc("POST "+root+"/invocation/{id}/error", p.serveError)
	mux.HandleFunc("POST "+root+"/init/error", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })
	return mux
}

func (p *process) serveNext(w http.ResponseWriter, r *http.Request) {
	p.once.Do(func() { close(p.asked) })
	var in *invocation
	select {
	case in = <-p.next:
	case <-r.Context().Done():
		return
	}
	p.mu.Lock()
	p.current = in
	p.mu.Unlock()
	w.Header().Set("Lambda-Runtime-Aws-Request-Id", in.id)
	w.Header().Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(in.deadline.UnixMilli(), 10))
	w.Header().Set("Lambda-Runtime-Invoked-Function-Arn", p.arn)
	w.Header().Set("Lambda-Runtime-Trace-Id", "Root=1-"+strings.ReplaceAll(in.id, "-", "")[:8]+"-000000000000000000000000;Sampled=0")
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(in.event) // if the process is gone, exited is closed
}

func (p *process) serveResponse(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.settle(w, r, answer{body: body})
}

func (p *process) serveError(w http.ResponseWriter, r *http.Request) {
	var e struct {
		Type    string `json:"errorType"`
		Message string `json:"errorMessage"`
	}
	if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.settle(w, r, answer{err: &FunctionError{Type: e.Type, Message: e.Message}})
}

// settle ends the current invocation. It refuses an invocation that is no longer current, as Lambda
// does.
func (p *process) settle(w http.ResponseWriter, r *http.Request, a answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current == nil || p.current.id != r.PathValue("id") {
		http.Error(w, "no such invocation", http.StatusBadRequest)
		return
	}
	p.current.answer <- a
	p.current = nil
	w.WriteHeader(http.StatusAccepted)
}
