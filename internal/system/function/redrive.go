package function

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/admin/deadletter"
	"github.com/effectively-once/once/internal/queue"
)

// The dead-letter queues, by the names that people give them.
const (
	DeadIngress     = "ingress-dead"      // served by Process
	DeadIngressFIFO = "ingress-dead.fifo" // served by Process
	DeadPublish     = "publish-dead"      // served by Publish
	DeadPublishFIFO = "publish-dead.fifo" // served by Publish
)

// Redriven is the answer to one call of a redrive. The caller repeats the call until one is done.
type Redriven struct {
	// Redriven dead letters were put back; Left did not match or came after Until; Failed could not
	// be put back. Both stay.
	Redriven int `json:"redriven"`
	Left     int `json:"left"`
	Failed   int `json:"failed"`
	// Failures hold the reasons of the first failures.
	Failures []deadletter.Failure `json:"failures,omitempty"`
	// Filter is that of the task. A caller checks it.
	Filter deadletter.Filter `json:"filter,omitzero"`
	// Until is for the next call: the beginning of the first one, by the clock of the functions.
	Until time.Time `json:"until"`
	// Done is false if time or redriveMost ended the call. The dead letters that it received and
	// left are then hidden for [deadletter.Visibility], so that the next call sees others.
	Done bool `json:"done"`
}

// Dropped is the answer to one call of a drop. The caller repeats the call until one is done.
type Dropped struct {
	Dropped int                `json:"dropped"`
	Letters []admin.DeadLetter `json:"letters,omitempty"`
	// Filter is that of the task, Until is for the next call, and Done ends the calls, as in
	// [Redriven].
	Filter deadletter.Filter `json:"filter,omitzero"`
	Until  time.Time         `json:"until"`
	Done   bool              `json:"done"`
}

const (
	// redriveMost is the largest number of dead letters that one call puts back or deletes.
	redriveMost = 1000
	// deadWait makes SQS ask all of its servers: a receive without a wait may miss messages.
	deadWait = time.Second
	// releaseTime bounds returning the dead letters that stay. With the time for deleting, it is
	// less than a task keeps until the function's deadline.
	releaseTime = 2 * time.Second
)

// deadQueues returns the dead-letter queues that a function redrives. The queues of messages belong
// to the function whose role the ingress queues trust, as they trust the HTTP API's.
func (s *System) deadQueues() map[string]string {
	switch s.function {
	case Process:
		return map[string]string{DeadIngress: s.queues.Dead, DeadIngressFIFO: s.queues.DeadFIFO}
	case Publish:
		return map[string]string{DeadPublish: s.queues.DeadPublish, DeadPublishFIFO: s.queues.DeadPublishFIFO}
	default:
		return nil
	}
}

// redrive puts dead letters of one queue back, as this function, whose sender is trusted. It ends
// with its context, at the task's Max, or at redriveMost.
func (s *System) redrive(ctx context.Context, task Task) (Redriven, error) {
	w, options, err := s.walk(task)
	if err != nil {
		return Redriven{}, err
	}
	r, err := deadletter.Redrive(ctx, w, s.pipeline.Queues, options)
	err = interrupted(ctx, task, err)
	out := Redriven{Redriven: r.Redriven, Left: r.Left, Failed: r.Failed, Failures: r.Failures, Filter: task.Filter, Until: options.Until}
	if out.Done = r.Through || r.Redriven == task.Max && task.Max > 0; out.Done || err != nil {
		w.Release(ctx, releaseTime)
	}
	return out, err
}

// drop deletes dead letters of one queue. It ends as redrive does.
func (s *System) drop(ctx context.Context, task Task) (Dropped, error) {
	if err := (admin.DropOptions{ID: task.ID, Reason: task.Reason}).Validate(); err != nil {
		return Dropped{}, err
	}
	w, options, err := s.walk(task)
	if err != nil {
		return Dropped{}, err
	}
	r, err := deadletter.Drop(ctx, w, options)
	err = interrupted(ctx, task, err)
	out := Dropped{Dropped: r.Dropped, Letters: r.Letters, Filter: task.Filter, Until: options.Until}
	if out.Done = r.Through; out.Done || err != nil {
		w.Release(ctx, releaseTime)
	}
	return out, err
}

// walk returns a walk through the task's queue, and which of its letters the task selects.
func (s *System) walk(task Task) (*deadletter.Walk, deadletter.Options, error) {
	q, err := s.deadQueue(task.Queue)
	if err != nil {
		return nil, deadletter.Options{}, err
	}
	o := deadletter.Options{Filter: task.Filter, Max: task.Max, Until: task.Until, By: task.By, Log: s.log}
	if o.Until.IsZero() {
		o.Until = s.now()
	}
	if task.Max <= 0 || task.Max > redriveMost {
		o.Max = redriveMost
	}
	return &deadletter.Walk{Queue: q, Trusted: s.bodies.trusted, Sources: s.pipeline.Source, Wait: deadWait}, o, nil
}

// interrupted returns the error of a run, or nil if its time was over: then the next call
// continues.
func interrupted(ctx context.Context, task Task, err error) error {
	if err == nil || errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		return nil //nolint:nilerr // the rest is left for the next call
	}
	return fmt.Errorf("%s: %w", task.Once, err)
}

func (s *System) deadQueue(name string) (queue.Queue, error) {
	queues := s.deadQueues()
	url, ok := queues[name]
	switch {
	case !ok:
		return nil, fmt.Errorf("redrive: function %s has no dead-letter queue %q, but %s", s.function, name, strings.Join(slices.Sorted(maps.Keys(queues)), " and "))
	case url == "":
		return nil, fmt.Errorf("redrive: the environment names no queue %s", name)
	}
	return queue.Named(s.bodies.queue(s.sqs, url), name), nil
}
