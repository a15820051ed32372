package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/queue"
)

const (
	visibility = 6 * time.Second // longer than the timeout
	// how long a stopped process stays stopped after its message was redelivered
	stall     = 1500 * time.Millisecond
	most      = 100 // messages for each fault: with more, something is wrong with the faults
	backlog   = 30
	drainTime = 20*visibility + 30*time.Second // the limit for everything to be acknowledged
)

// A place is the environment of trials.
type place struct {
	endpoint string // of DynamoDB
	tables   tables
	dir      string
}

// A trial is one consumer under one kind of fault.
type trial struct {
	consumer *consumer
	fault    fault
	target   int
	endpoint string // of DynamoDB
	tables   tables
	dir      string // for files that processes may keep between starts
	run      string // unique: the prefix of the ids of its messages

	broker  *broker
	sends   sends
	address string // of the receiver and of SQS
	stopped sync.WaitGroup

	mu        sync.Mutex
	offered   []string
	struck    int // faults so far
	arming    int // invocations that may still meet a fault
	stages    map[*stage]*profile
	finished  chan struct{} // closed when there are enough faults
	exhausted chan struct{} // closed when there are too many messages for the number of faults
	late      int           // deliveries that were not acknowledged in time, without a fault
}

func newTrial(c *consumer, f fault, target int, in place) *trial {
	t := &trial{
		consumer: c, fault: f, target: target, endpoint: in.endpoint, tables: in.tables, dir: in.dir, run: rand.Text()[:8],
		broker: newBroker(visibility), sends: sends{of: map[string][]send{}}, stages: map[*stage]*profile{}, finished: make(chan struct{}), exhausted: make(chan struct{}),
	}
	for i := range c.stages {
		t.stages[&c.stages[i]] = &profile{}
	}
	return t
}

// play offers messages until there are enough faults, and waits until all are acknowledged.
func (t *trial) play(ctx context.Context) (err error) {
	address, stop, err := listen(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Amz-Target") != "" {
			t.serveSQS(w, r)
			return
		}
		t.serveReceiver(w, r)
	}))
	if err != nil {
		return err
	}
	defer stop()
	t.address = address
	working, end := context.WithCancel(ctx)
	failed, workers, done := t.start(working)
	defer done()
	defer end()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.finished:
	case <-t.exhausted:
		return fmt.Errorf("no %d faults within %d messages", t.target, len(t.offered))
	}
	return t.drain(ctx, workers, failed)
}

// start starts the processes of all stages.
func (t *trial) start(ctx context.Context) (failed chan error, workers []*worker, done func()) {
	var group sync.WaitGroup
	failed = make(chan error, 100)
	for i := range t.consumer.stages {
		s := &t.consumer.stages[i]
		for range s.workers(t.fault) {
			w := &worker{trial: t, stage: s}
			workers = append(workers, w)
			group.Go(func() {
				if err := w.run(ctx); err != nil && ctx.Err() == nil {
					failed <- err
				}
			})
		}
	}
	return failed, workers, group.Wait
}

// drain waits until nothing is queued, in progress or stopped.
func (t *trial) drain(ctx context.Context, workers []*worker, failed <-chan error) error {
	t.stopped.Wait()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	end := time.After(drainTime)
	for calm := 0; calm < 3; calm++ {
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-end:
			return fmt.Errorf("%d messages were not acknowledged within %s", t.broker.left("ingress")+t.broker.left("publish"), drainTime)
		case <-tick.C:
		}
		if t.broker.left("ingress")+t.broker.left("publish") > 0 || slices.ContainsFunc(workers, (*worker).busy) {
			calm = -1
		}
	}
	return nil
}

// receive returns the next delivery of a stage: a queued message, or a new one.
func (t *trial) receive(ctx context.Context, s *stage) (item, bool) {
	if s.queue != "ingress" {
		return t.broker.receive(ctx, s.queue, func() bool { return false })
	}
	return t.broker.receive(ctx, s.queue, t.offer)
}

// offer puts a new message on the queue, while there are too few faults and the later stages keep
// up.
func (t *trial) offer() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.struck >= t.target || len(t.offered) >= most*t.target || t.broker.left("publish") >= backlog {
		return false
	}
	id := fmt.Sprintf("%s-%d", t.run, len(t.offered))
	t.offered = append(t.offered, id)
	if len(t.offered) == most*t.target {
		close(t.exhausted)
	}
	t.broker.send("ingress", queue.Message{Body: fmt.Sprintf(`{"id":%q}`, id), Attributes: map[string]string{"once-stream": "messages", "once-id": id}})
	return true
}

// refuse reports whether a send is to fail.
func (t *trial) refuse() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fault != refused || t.struck >= t.target || mathrand.Float64() >= sendShare { //nolint:gosec // chance is all that is asked for
		return false
	}
	t.strikeOne()
	return true
}

// environment returns the environment of all processes.
func (t *trial) environment() []string {
	return append(append(os.Environ(), t.tables.environment()...),
		"AWS_ENDPOINT_URL_SQS=http://"+t.address, "FAULTS_RECEIVER=http://"+t.address+"/send", "AWS_LAMBDA_FUNCTION_NAME=faults", "_HANDLER=bootstrap",
		// the name that Python's SDK uses
		"AWS_LAMBDA_LOG_FORMAT=JSON", "NODE_ENV=production", "PYTHONDONTWRITEBYTECODE=", "PYTHONPYCACHEPREFIX="+t.dir, "AWS_DEFAULT_REGION="+os.Getenv("AWS_REGION"),
		"OTEL_EXPORTER_OTLP_ENDPOINT=", "ONCE_CONFIG="+t.consumer.config(t.address, ""))
}

func listen(ctx context.Context, h http.Handler) (address string, stop func(), err error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "faults:", err)
		}
	}()
	return l.Addr().String(), func() { _ = s.Close() }, nil
}
