package lambda

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/deadletter"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
)

// The dead-letter queues, by the names that people give them.
const (
	DeadIngress     = "ingress-dead"      // served by Process
	DeadIngressFIFO = "ingress-dead.fifo" // served by Process
	DeadPublish     = "publish-dead"      // served by Publish
	DeadPublishFIFO = "publish-dead.fifo" // served by Publish
)

// Redriven tells what one call of a redrive did. Whoever called goes on with calls until one is done.
type Redriven struct {
	// Redriven dead letters were put back; Left did not match or came after Until; Failed could not be put back. Both stay.
	Redriven int `json:"redriven"`
	Left     int `json:"left"`
	Failed   int `json:"failed"`
	// Failures say why of the first of the failed ones.
	Failures []deadletter.Failure `json:"failures,omitempty"`
	// Until is for the next call: the beginning of the first one, by the clock of the functions.
	Until time.Time `json:"until"`
	// Done is false where time or [RedriveMost] ended the call. What it looked at and left is hidden for [deadletter.Visibility] then, so that the next call sees others.
	Done bool `json:"done"`
}

const (
	// RedriveMost is how many dead letters one call puts back at most.
	RedriveMost = 1000
	// deadWait makes SQS ask all of its servers: a receive without a wait may miss messages.
	deadWait = time.Second
	// releaseTime bounds giving back what stays. With the time for deleting, it is less than a task keeps until the function's deadline.
	releaseTime = 2 * time.Second
)

// deadQueues are those that a function redrives. The ones of messages belong to the function whose role the ingress queues believe, as they believe the front door's.
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

// redrive puts dead letters of one queue back, as this function: what it sends is believed. It ends with its context, at the task's Max, or at RedriveMost.
func (s *System) redrive(ctx context.Context, task Task) (Redriven, error) {
	q, err := s.deadQueue(task.Queue)
	if err != nil {
		return Redriven{}, err
	}
	options := deadletter.Options{Reason: task.Reason, Max: task.Max, Until: task.Until, Log: s.log}
	if options.Until.IsZero() {
		options.Until = s.now()
	}
	if task.Max <= 0 || task.Max > RedriveMost {
		options.Max = RedriveMost
	}
	w := &deadletter.Walk{Queue: q, Trusted: s.trusted, Wait: deadWait}
	r, err := deadletter.Redrive(ctx, w, s.pipeline.Queues, options)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		err = nil // the next call goes on
	} else if err != nil {
		err = fmt.Errorf("redrive: %w", err)
	}
	out := Redriven{Redriven: r.Redriven, Left: r.Left, Failed: r.Failed, Failures: r.Failures, Until: options.Until}
	if out.Done = r.Through || r.Redriven == task.Max && task.Max > 0; out.Done || err != nil {
		w.Release(ctx, releaseTime)
	}
	return out, err
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
	return deadQueue{sqsqueue.New(s.sqs, url), name}, nil
}

// A deadQueue goes by the name that people give it, not by the one that CloudFormation made up.
type deadQueue struct {
	queue.Queue
	name string
}

func (d deadQueue) Name() string { return d.name }
