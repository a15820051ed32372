package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/uuid"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/testkit/faultproxy"
	"github.com/effectively-once/once/localstack/lambda/host"
)

// timeout is the functions' limit for one invocation. It is shorter than the visibility timeout.
// Powertools consider an execution in progress for that long.
const timeout = 5 * time.Second

// A worker is one process of a consumer, its Lambda Runtime API, and its proxy to DynamoDB. A
// killed process is restarted.
type worker struct {
	trial *trial
	stage *stage
	env   []string
	// handler is the process that the function calls; nil if the function handles messages itself.
	handler *handler

	mu      sync.Mutex
	command *exec.Cmd
	served  int // invocations of this process
	now     *invocation
	log     tail
}

// An invocation is one delivery in a process.
type invocation struct {
	id      string
	item    item
	began   time.Time
	fresh   bool // a first delivery to a warm process: it is measured, or meets a fault
	armed   bool // a fault is planned, or has happened
	struck  bool
	dropAt  int // the write whose reply is lost; -1 for none
	writes  int
	timer   *time.Timer
	settled bool
}

// run restarts the process until the context ends.
func (w *worker) run(ctx context.Context) error {
	api, stopAPI, err := listen(ctx, w.api())
	if err != nil {
		return err
	}
	defer stopAPI()
	proxy, stopProxy, err := listen(ctx, faultproxy.New(w.trial.endpoint, w.plan))
	if err != nil {
		return err
	}
	defer stopProxy()
	w.env = append(w.trial.environment(), w.stage.env...)
	w.env = append(w.env, "AWS_LAMBDA_RUNTIME_API="+api, endpointVariable+"=http://"+proxy)
	if len(w.stage.handler) > 0 {
		stop, err := w.startHandler(ctx)
		if err != nil {
			return err
		}
		defer stop()
	}
	for idle := 0; ctx.Err() == nil; idle++ {
		asked, err := w.process(ctx)
		if asked {
			idle = 0
		}
		if err != nil || idle >= 3 {
			return errors.Join(err, fmt.Errorf("%s does not come up: %s", w.stage.command[0], w.log.text()))
		}
	}
	return nil
}

// startHandler starts the process that handles messages, and waits until it listens.
func (w *worker) startHandler(ctx context.Context) (stop func(), err error) {
	if w.handler, err = newHandler(w.stage.handler); err != nil {
		return nil, err
	}
	w.env = append(w.env, secretVariable+"="+handlerSecret, "ONCE_CONFIG="+w.trial.consumer.config(w.trial.address, w.handler.address))
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { w.handler.run(ctx) })
	stop = func() { cancel(); running.Wait() }
	if err := w.handler.ready(ctx); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// victim returns the process that a fault hits: that of the function, or every other time that of
// the handler.
func (w *worker) victim() *os.Process {
	if w.handler != nil && mathrand.IntN(2) == 0 { //nolint:gosec // chance is all that is asked for
		return w.handler.process()
	}
	return w.command.Process
}

// process runs one process to its end, and reports whether it asked for an event.
func (w *worker) process(ctx context.Context) (asked bool, err error) {
	command := exec.CommandContext(ctx, w.stage.command[0], w.stage.command[1:]...) //nolint:gosec // programs of this comparison
	command.Env, command.Stdout, command.Stderr = w.env, &w.log, &w.log
	w.mu.Lock()
	w.command, w.served, w.now = command, 0, nil
	err = command.Start()
	w.mu.Unlock()
	if err != nil {
		return false, err
	}
	_ = command.Wait() // usually killed
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now != nil {
		w.trial.end(w.now)
	}
	return w.served > 0, nil
}

func (w *worker) api() http.Handler {
	const root = "/2018-06-01/runtime/"
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+root+"invocation/next", w.next)
	mux.HandleFunc("POST "+root+"invocation/{id}/response", func(rw http.ResponseWriter, r *http.Request) { w.settle(rw, r, true) })
	mux.HandleFunc("POST "+root+"invocation/{id}/error", func(rw http.ResponseWriter, r *http.Request) { w.settle(rw, r, false) })
	mux.HandleFunc("POST "+root+"init/error", func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(&w.log, r.Body) // for the report
		rw.WriteHeader(http.StatusAccepted)
	})
	return mux
}

// next returns the next delivery, and plans its fault.
func (w *worker) next(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	asking := w.command
	w.mu.Unlock()
	got, ok := w.trial.receive(r.Context(), w.stage)
	if !ok {
		return
	}
	in := &invocation{id: uuid.NewString(), item: got, began: time.Now(), dropAt: -1}
	event, err := json.Marshal(host.Event("arn:aws:sqs:us-east-1:000000000000:"+got.queue, []queue.Delivery{got.Delivery}))
	if err != nil {
		return
	}
	w.mu.Lock()
	if w.command != asking { // it was killed meanwhile: the message is redelivered
		w.mu.Unlock()
		return
	}
	w.served++
	in.fresh = w.served > 1 && got.Receives == 1
	w.now = in
	w.trial.arm(w, in)
	w.mu.Unlock()
	rw.Header().Set("Lambda-Runtime-Aws-Request-Id", in.id)
	rw.Header().Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(in.began.Add(timeout).UnixMilli(), 10))
	rw.Header().Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:us-east-1:000000000000:function:faults")
	rw.Header().Set("Content-Type", "application/json")
	_, _ = rw.Write(event) // if the process is gone, the message is redelivered
}

// settle handles the response to an invocation: a success deletes the message; otherwise it is
// redelivered after the visibility timeout.
func (w *worker) settle(rw http.ResponseWriter, r *http.Request, success bool) {
	var answer events.SQSEventResponse
	body, err := io.ReadAll(r.Body)
	if err == nil && success && json.Unmarshal(body, &answer) == nil && len(answer.BatchItemFailures) > 0 {
		success = false
	}
	w.mu.Lock()
	if in := w.now; in != nil && in.id == r.PathValue("id") {
		w.trial.end(in)
		w.trial.settled(w.stage, in, success)
	}
	w.mu.Unlock()
	rw.WriteHeader(http.StatusAccepted)
}

// plan loses the reply of the chosen write.
func (w *worker) plan(c faultproxy.Call) faultproxy.Fault {
	switch c.Operation {
	case "PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems":
	default:
		return faultproxy.None
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	in := w.now
	if in == nil {
		return faultproxy.None
	}
	in.writes++
	if in.writes-1 != in.dropAt || in.settled {
		return faultproxy.None
	}
	w.trial.committed(in)
	return faultproxy.Dropped
}

// strike kills or stops the process, if the invocation is still in progress.
func (w *worker) strike(in *invocation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if in.settled || w.now != in {
		return
	}
	process := w.victim()
	if w.trial.fault == killed {
		if process.Kill() == nil {
			w.trial.committed(in)
		}
		return
	}
	if process.Signal(syscall.SIGSTOP) != nil {
		return
	}
	w.trial.committed(in)
	w.trial.stopped.Add(1)
	time.AfterFunc(w.trial.broker.visibility+stall, func() {
		defer w.trial.stopped.Done()
		_ = process.Signal(syscall.SIGCONT) // it can't have ended
	})
}

// busy reports whether the process has an invocation in progress.
func (w *worker) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now != nil && !w.now.settled
}

// A tail keeps the end of a process's output.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.buf.Len() > 1<<16 {
		t.buf.Reset()
	}
	return t.buf.Write(p)
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
