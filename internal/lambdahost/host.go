// Package lambdahost runs Lambda functions as processes: it is the other side of the Lambda Runtime API, which the bootstrap binaries speak, so that what would be
// deployed is what runs.
//
// # Limits
//
// An instance serves one invocation at a time, as an execution environment does; a pool has as many of them as there are invocations at once. A process ends by Close, by
// Kill, by itself, or when an invocation has run into its timeout: then the next invocation starts a new one. Nothing is frozen between invocations.
package lambdahost

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

// DefaultTimeout is how long an invocation may take where nothing else is said.
const DefaultTimeout = 30 * time.Second

// Options of an instance. Zero fields take the defaults in their comments.
type Options struct {
	// Name of the function, in its ARN. Defaults to "function".
	Name string
	// Env is added to the environment of this process.
	Env []string
	// Timeout of one invocation, after which the process is killed. Defaults to DefaultTimeout.
	Timeout time.Duration
	// Output gets what the function writes and logs. Defaults to discarding.
	Output io.Writer
	// Now defaults to time.Now.
	Now func() time.Time
}

// The ways in which an invocation fails.
var (
	ErrTimeout = errors.New("function timed out")
	ErrExited  = errors.New("function's process ended")
)

// A FunctionError is what a function's handler returned.
type FunctionError struct{ Type, Message string }

func (e *FunctionError) Error() string { return e.Type + ": " + e.Message }

// An Instance is one function with at most one process.
type Instance struct {
	bootstrap string
	options   Options

	turn sync.Mutex // one invocation at a time

	mu      sync.Mutex
	process *process // nil before the first invocation, and after one that ended it
}

// New makes an instance of a bootstrap binary. The first invocation starts it.
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

// Invoke hands an event to the function and gives its answer. Beside the errors above there is that of the context: where it ends, the process is killed, which the
// function does not see coming; its own deadline is the timeout's.
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

// Start starts the process, if none runs, and waits until it asks for an event. A process that ends before that is ErrExited.
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

// running gives the process, a new one where none is alive.
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

// end ends the process of whoever has the turn.
func (i *Instance) end() {
	if p := i.current(); p != nil {
		p.kill()
		i.set(nil)
	}
}

// Kill ends the process at once, whatever it is doing, and tells whether there was one. An invocation that is under way fails with ErrExited.
func (i *Instance) Kill() bool {
	p := i.current()
	if p == nil || p.over() || p.command.Process.Kill() != nil {
		return false
	}
	<-p.exited
	return true
}

// Close ends the process, after the invocation that is under way.
func (i *Instance) Close() error {
	i.turn.Lock()
	defer i.turn.Unlock()
	i.end()
	return nil
}

// An invocation is on its way through a process.
type invocation struct {
	id       string
	event    []byte
	deadline time.Time
	answer   chan answer // takes one without waiting
}

type answer struct {
	body []byte
	err  error
}

// A process is a running bootstrap and the API that it asks.
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
	go func() { _ = p.server.Serve(listener) }() // ends with Close, and says so
	p.command.Stdout, p.command.Stderr = i.options.Output, i.options.Output
	p.command.Env = append(os.Environ(), "AWS_LAMBDA_RUNTIME_API="+listener.Addr().String(), "AWS_LAMBDA_FUNCTION_NAME="+i.options.Name, "_HANDLER=bootstrap")
	p.command.Env = append(p.command.Env, i.options.Env...)
	if err := p.command.Start(); err != nil {
		return nil, errors.Join(err, p.server.Close())
	}
	go func() {
		_ = p.command.Wait() // how it ended is in its output
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

// kill ends the process, as Lambda does: by force.
func (p *process) kill() {
	_ = p.command.Process.Kill() // it may have ended already
	<-p.exited
	_ = p.server.Close() // nobody is there any more
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

// api is the Lambda Runtime API.
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
	_, _ = w.Write(in.event) // a process that is gone is noticed by its end
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

// settle ends the current invocation; one that is not current any more is refused, as Lambda does.
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
