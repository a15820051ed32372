package explore

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/dedup/lease"
	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/front/batch"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/process"
	"github.com/effectively-once/once/internal/system/publish"
)

// A kind is the kind of a worker.
type kind uint8

const (
	processes kind = iota // the process function
	publishes             // the publish function
	serves                // the HTTP API
	sweeps                // a sweep of a group
	closes                // a sweep of its gaps
	collects              // a sweep of staged objects
	skips                 // a skip of an effect
	guards                // a leased consumer
	follows               // a reader of a log, which reads one page
	moves                 // a keeper of delayed messages, which moves those that are due
	reopens               // an operator who puts back a dead letter whose caller was answered
	kinds
)

// String returns the kind's word.
func (k kind) String() string {
	return [...]string{"process", "publish", "serve", "sweep", "close gaps", "collect", "skip", "guard", "read log", "move", "reopen"}[k]
}

// A run is a worker between two calls: its input, and the answers to its calls so far. Its next
// call depends only on these.
type run struct {
	id    int32
	kind  kind
	name  string
	items []string // its input
	first time.Time
	// restores are those of the system before the worker started.
	restores record.Restores

	parent *run    // before the last answer; nil at the start
	given  *answer // the last answer
	length int     // answers so far

	// lapsed says that the visibility time of its delivery has ended: the queue has redelivered its
	// messages.
	lapsed  bool
	overdue *run // this run with lapsed set

	// traced says that a write may have stored the run's name.
	traced bool

	call *call // the next call; nil if the run has ended
	end  *end
	next map[*answer]*run
}

// end is the result of a run.
type end struct {
	again map[string]bool           // messages and triggers that have to be redelivered
	fates map[string]record.Outcome // of messages, by name
	// the answer to the client of a request; empty if the client repeats the request
	told string
	done bool // that client was told that its message is done
	// failed says that a dead letter could not be put back
	failed bool
	// accepted names the messages of a batch of which the client was told that they are accepted
	accepted []string
	// read is the result of a reader; nil if it got no answer
	read *readPage
}

// begin returns the run of a worker that has just received its input.
func (w *world) begin(k kind, name string, items []string, v view) *run {
	return w.advanced(w.runs.one(keyOf(k, name, items, v.now, v.backup.restores), func(id int32) *run {
		return &run{id: id, kind: k, name: name, items: items, first: v.now, restores: v.backup.restores, next: map[*answer]*run{}}
	}))
}

// after returns the run after an answer.
func (w *world) after(r *run, a *answer) *run {
	next, ok := r.next[a]
	if !ok {
		next = &run{
			id: int32(len(w.runs.list)), kind: r.kind, name: r.name, items: r.items, first: r.first, restores: r.restores, parent: r, given: a, length: r.length + 1, //nolint:gosec // see table.one
			lapsed: r.lapsed, traced: r.traced || !r.call.reads && r.call.touches&touchQueues == 0, next: map[*answer]*run{},
		}
		w.runs.list = append(w.runs.list, next)
		r.next[a] = next
	}
	return w.advanced(next)
}

// lapsed returns the run after the visibility time of its delivery has ended.
func (w *world) lapsed(r *run) *run {
	if r.overdue == nil {
		c := *r
		c.id, c.lapsed, c.next = int32(len(w.runs.list)), true, map[*answer]*run{} //nolint:gosec // see table.one
		w.runs.list = append(w.runs.list, &c)
		r.overdue = &c
	}
	return r.overdue
}

// advanced determines the next call of a run, by running the real code from its beginning.
func (w *world) advanced(r *run) *run {
	if r.call != nil || r.end != nil {
		return r
	}
	a := &host{w: w, name: r.name, restores: r.restores, now: r.first, script: make([]*run, r.length), used: make([]bool, r.length)}
	for step := r; step.parent != nil; step = step.parent {
		a.script[step.length-1] = step
	}
	var e *end
	done := make(chan struct{})
	go func() { // ended by the host
		defer close(done)
		e = w.perform(a, r)
	}()
	<-done
	if a.asked != nil {
		r.call = a.asked
		return r
	}
	r.end = e
	return r
}

// perform runs the code of a worker.
func (w *world) perform(a *host, r *run) *end {
	ctx := context.Background()
	e := w.engine(a)
	switch r.kind {
	case processes:
		return w.process(ctx, a, r)
	case publishes:
		out := &end{again: map[string]bool{}}
		trigger := queue.Delivery{Message: w.toPublish(r.items[0]), ID: r.items[0]}
		if publish.New(e, publish.Options{Trusted: []string{ourselves}}).Handle(ctx, []queue.Delivery{trigger})[0].Retry {
			out.again[trigger.ID] = true
		}
		return out
	case serves:
		return w.serve(a, r.items[0])
	case sweeps:
		_ = e.Sweep(ctx, record.GroupKey{Stream: stream, Group: r.items[0]})
		if w.scenario.Stream.Pool {
			_ = w.sessions(a).SweepEnds(ctx)
		}
	case closes:
		_ = e.CloseGaps(ctx, record.GroupKey{Stream: stream, Group: r.items[0]})
	case collects:
		_, _ = e.SweepBlobs(ctx, storePort{a}, a.clock())
	case skips:
		_, _ = e.Skip(ctx, record.GroupKey{Stream: stream, Group: r.items[0]}, w.scenario.Skip)
	case guards:
		return w.guard(ctx, a, r.items[0])
	case follows:
		return w.follow(ctx, a, r)
	case moves:
		w.keep(ctx, a)
	case reopens:
		name, reason, _ := strings.Cut(r.items[0], ": ")
		m := w.scenario.message(name)
		answered, err := e.Answered(ctx, record.Refused{Message: m, Reason: record.Reason(reason)})
		if err == nil && answered {
			err = e.Reopen(ctx, &m)
		}
		return &end{failed: err != nil}
	case kinds:
	}
	return &end{}
}

// witness is the engine, and records its outcomes.
type witness struct {
	process.Engine
	fates map[string]record.Outcome
}

func (e witness) ProcessUntil(ctx context.Context, until time.Time, messages []record.Message) []record.Outcome {
	outcomes := e.Engine.ProcessUntil(ctx, until, messages)
	for i, o := range outcomes {
		e.fates[nameOf(messages[i])] = o
	}
	return outcomes
}

// Direct implements [process.Engine].
func (e witness) Direct(ctx context.Context, until time.Time, m record.Message) (record.Outcome, bool) {
	o, published := e.Engine.Direct(ctx, until, m)
	e.fates[nameOf(m)] = o
	return o, published
}

// DirectAll implements [process.Engine].
func (e witness) DirectAll(ctx context.Context, until time.Time, messages []record.Message) []record.Outcome {
	outcomes := e.Engine.DirectAll(ctx, until, messages)
	for i, o := range outcomes {
		e.fates[nameOf(messages[i])] = o
	}
	return outcomes
}

func (w *world) process(ctx context.Context, a *host, r *run) *end {
	out := &end{again: map[string]bool{}, fates: map[string]record.Outcome{}}
	decode := func(d *queue.Delivery) (record.Message, error) {
		name, _, _ := strings.Cut(d.ID, " ")
		return w.scenario.message(name), nil
	}
	var deliveries []queue.Delivery
	for i, name := range r.items {
		d := queue.Delivery{Queue: "ingress", ID: fmt.Sprintf("%s %d", name, i), Receives: w.scenario.Receives, Sent: r.first.Add(-time.Hour)}
		if w.scenario.FIFO {
			m := w.scenario.message(name)
			d.Queue, d.Group = "ingress.fifo", m.GroupName()
		}
		deliveries = append(deliveries, d)
	}
	handler := process.New(witness{w.engine(a), out.fates}, decode, queuesPort{a}.Defer, process.Options{
		Retry: func(string) record.RetryPolicy {
			return record.RetryPolicy{First: time.Second, Max: time.Second, For: time.Second}
		},
		MinTries: w.scenario.minTries(), Random: func(int64) int64 { return 0 }, Now: a.clock,
	})
	for i, disposition := range handler.Handle(ctx, deliveries) {
		if disposition.Retry {
			out.again[deliveries[i].ID] = true
		}
	}
	return out
}

// serve handles a request with the real HTTP API.
func (w *world) serve(a *host, name string) *end {
	r := w.scenario.Requests[request(name)]
	method, path, _ := strings.Cut(r.Do, " ")
	body := r.Body
	if len(r.Messages) > 0 {
		r.Header, body = map[string]string{"Content-Type": batch.NDJSON}, w.lines(r.Messages)
	}
	request := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(body))
	for key, value := range r.Header {
		request.Header.Set(key, value)
	}
	if len(r.Messages) == 0 && !r.ends() {
		request.Header.Set("Once-Header-"+nameHeader, r.Message)
	}
	answer := httptest.NewRecorder()
	out := &end{fates: map[string]record.Outcome{}}
	options := api.Options{Engine: w.engine(a), Queue: queuesPort{a}, Now: a.clock, RequestID: func(*http.Request) string { return "r" }}
	if w.scenario.Stream.Pool {
		options.Sessions = w.sessions(a)
	}
	if w.scenario.Direct && !strings.HasSuffix(name, behind) {
		options.Direct = w.runner(a, out, strings.HasSuffix(name, late))
	}
	api.New(options).ServeHTTP(answer, request)
	if len(r.Messages) > 0 {
		out.results(r.Messages, answer)
		return out
	}
	if answer.Code >= 500 || answer.Code == http.StatusTooManyRequests {
		return out
	}
	if w.scenario.Stream.Pool {
		out.told = toldOfEnd(answer.Code, answer.Body.String())
		return out
	}
	told := w.toldOfEpoch(r, answer.Code, answer.Body.Bytes())
	out.done = strings.Contains(answer.Body.String(), `"status":"done"`)
	if w.scenario.Stream.Reply && answer.Code == http.StatusOK && method == http.MethodPost {
		told += " " + answer.Body.String()
	}
	out.told = told
	return out
}

// guard runs the scenario's handler as a leased consumer, which keeps nothing but its replies.
func (w *world) guard(ctx context.Context, a *host, name string) *end {
	g := lease.New(storePort{a}, lease.Config{
		Lease: 2 * time.Duration(w.scenario.Tick), Now: a.clock, NewID: a.newID, Pause: func(context.Context, time.Duration) error { return nil },
	})
	m := w.scenario.message(name)
	id := lease.Identity{Key: record.NewTokenKey("", stream, m.Identity()), Fingerprint: m.Fingerprint()}
	result, err := g.Eager(ctx, id, func(context.Context) (*record.Reply, error) {
		reply := &record.Reply{Status: 200, Body: []byte(name + " by " + a.newID())}
		return reply, a.work(string(reply.Body))
	})
	if err != nil {
		return &end{}
	}
	return &end{told: string(result.Reply.Body)}
}
