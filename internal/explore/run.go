package explore

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/effectively-once/once/internal/api"
	"github.com/effectively-once/once/internal/lease"
	"github.com/effectively-once/once/internal/process"
	"github.com/effectively-once/once/internal/publish"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/wire"
)

// A kind is what a worker does.
type kind uint8

const (
	processes kind = iota // the process function
	publishes             // the publish function
	serves                // the front door
	sweeps                // a sweep of a group
	closes                // a sweep of its gaps
	collects              // a sweep of staged objects
	guards                // a leased consumer
	kinds
)

// String gives the kind's word.
func (k kind) String() string {
	return [...]string{"process", "publish", "serve", "sweep", "close gaps", "collect", "guard"}[k]
}

// A run is a worker between two calls: what it received, and what its calls so far were answered. That is all that its next call depends on.
type run struct {
	id    int32
	kind  kind
	name  string
	items []string // what it received
	first time.Time

	parent *run    // before the last answer; nil at the start
	given  *answer // the last answer
	length int     // answers so far

	// lapsed tells that the time of its delivery is over: the queue has delivered once more what it received.
	lapsed bool
	twin   *run // the same one after that

	// traced tells that a write may have left the run's name somewhere.
	traced bool

	call *call // what it does next; nil when it has ended
	end  *end
	next map[*answer]*run
}

// end is what came out of a run.
type end struct {
	again map[string]bool           // messages and triggers that have to be delivered again
	fates map[string]record.Outcome // of messages, by name
	told  string                    // to the client of a request; empty where the client asks again
}

// begin gives the run that has just received something.
func (w *world) begin(k kind, name string, items []string, now time.Time) *run {
	return w.advanced(w.runs.one(keyOf(k, name, items, now), func(id int32) *run {
		return &run{id: id, kind: k, name: name, items: items, first: now, next: map[*answer]*run{}}
	}))
}

// after gives the run that has got an answer.
func (w *world) after(r *run, a *answer) *run {
	next, ok := r.next[a]
	if !ok {
		next = &run{
			id: int32(len(w.runs.list)), kind: r.kind, name: r.name, items: r.items, first: r.first, parent: r, given: a, length: r.length + 1, //nolint:gosec // see table.one
			lapsed: r.lapsed, traced: r.traced || !r.call.reads && r.call.touches&touchQueues == 0, next: map[*answer]*run{},
		}
		w.runs.list = append(w.runs.list, next)
		r.next[a] = next
	}
	return w.advanced(next)
}

// lapsed gives the run that goes on when the time of its delivery is over.
func (w *world) lapsed(r *run) *run {
	if r.twin == nil {
		c := *r
		c.id, c.lapsed, c.next = int32(len(w.runs.list)), true, map[*answer]*run{} //nolint:gosec // see table.one
		w.runs.list = append(w.runs.list, &c)
		r.twin = &c
	}
	return r.twin
}

// advanced finds out what a run does next, by running the real code from its beginning.
func (w *world) advanced(r *run) *run {
	if r.call != nil || r.end != nil {
		return r
	}
	a := &host{w: w, name: r.name, now: r.first, script: make([]*run, r.length), used: make([]bool, r.length)}
	for step := r; step.parent != nil; step = step.parent {
		a.script[step.length-1] = step
	}
	var e *end
	done := make(chan struct{})
	go func() { // which the host ends
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

// perform is the code of a worker.
func (w *world) perform(a *host, r *run) *end {
	ctx := context.Background()
	e := w.engine(a)
	switch r.kind {
	case processes:
		return w.process(ctx, a, r)
	case publishes:
		out := &end{again: map[string]bool{}}
		event := events.SQSEvent{Records: []events.SQSMessage{{MessageId: r.items[0], Body: wire.ToTrigger(record.GroupKey{Stream: stream, Group: r.items[0]}).Body}}}
		response, _ := publish.New(e, nil, nil).Handle(ctx, event)
		for _, f := range response.BatchItemFailures {
			out.again[f.ItemIdentifier] = true
		}
		return out
	case serves:
		return w.serve(a, r.items[0])
	case sweeps:
		_ = e.Sweep(ctx, record.GroupKey{Stream: stream, Group: r.items[0]})
	case closes:
		_ = e.CloseGaps(ctx, record.GroupKey{Stream: stream, Group: r.items[0]})
	case collects:
		_, _ = e.SweepBlobs(ctx, storePort{a}, a.clock())
	case guards:
		return w.guard(ctx, a, r.items[0])
	case kinds:
	}
	return &end{}
}

// witness is the engine that notes what it said of each message.
type witness struct {
	process.Engine
	fates map[string]record.Outcome
}

func (e witness) Process(ctx context.Context, messages []record.Message) []record.Outcome {
	outcomes := e.Engine.Process(ctx, messages)
	for i, o := range outcomes {
		e.fates[nameOf(messages[i])] = o
	}
	return outcomes
}

func (w *world) process(ctx context.Context, a *host, r *run) *end {
	out := &end{again: map[string]bool{}, fates: map[string]record.Outcome{}}
	decode := func(m events.SQSMessage) (record.Message, error) {
		name, _, _ := strings.Cut(m.MessageId, " ")
		return w.scenario.message(name), nil
	}
	var event events.SQSEvent
	for i, name := range r.items {
		received := events.SQSMessage{
			MessageId: fmt.Sprintf("%s %d", name, i), EventSourceARN: "arn:aws:sqs:eu-west-1:111122223333:ingress",
			Attributes: map[string]string{"ApproximateReceiveCount": strconv.Itoa(w.scenario.Receives)},
		}
		if w.scenario.FIFO {
			m := w.scenario.message(name)
			received.EventSourceARN += ".fifo"
			received.Attributes["MessageGroupId"] = m.GroupName()
		}
		event.Records = append(event.Records, received)
	}
	handler := process.New(witness{w.engine(a), out.fates}, decode, queuesPort{a}.Defer, process.Options{MaxReceives: w.scenario.Tries})
	response, _ := handler.Handle(ctx, event)
	for _, f := range response.BatchItemFailures {
		out.again[f.ItemIdentifier] = true
	}
	return out
}

// serve answers a request at the real front door.
func (w *world) serve(a *host, name string) *end {
	r := w.scenario.Requests[name]
	method, path, _ := strings.Cut(r.Do, " ")
	request := httptest.NewRequestWithContext(context.Background(), method, path, strings.NewReader(r.Body))
	for key, value := range r.Header {
		request.Header.Set(key, value)
	}
	request.Header.Set("Once-Header-"+nameHeader, r.Message)
	answer := httptest.NewRecorder()
	api.New(api.Options{
		Engine: w.engine(a), Queue: queuesPort{a}, Now: a.clock, RequestID: func(*http.Request) string { return "r" },
	}).ServeHTTP(answer, request)
	if answer.Code >= 500 || answer.Code == http.StatusTooManyRequests {
		return &end{}
	}
	told := fmt.Sprint(answer.Code)
	if w.scenario.Stream.Reply && answer.Code == http.StatusOK && method == http.MethodPost {
		told += " " + answer.Body.String()
	}
	return &end{told: told}
}

// guard runs the scenario's handler as a leased consumer, which remembers what it answered and nothing else.
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
