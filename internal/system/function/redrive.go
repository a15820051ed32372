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
	"github.com/effectively-once/once/internal/system/function/tasks"
	"github.com/effectively-once/once/internal/system/pipeline"
)

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
		return map[string]string{tasks.DeadIngress: s.queues.Dead, tasks.DeadIngressFIFO: s.queues.DeadFIFO}
	case Publish:
		return map[string]string{tasks.DeadPublish: s.queues.DeadPublish, tasks.DeadPublishFIFO: s.queues.DeadPublishFIFO}
	default:
		return nil
	}
}

// redrive puts dead letters of one queue back, as this function, whose sender is trusted. It ends
// with its context, at the task's Max, or at redriveMost.
func (s *System) redrive(ctx context.Context, task tasks.Task) (tasks.Redriven, error) {
	w, options, err := s.walk(task)
	if err != nil {
		return tasks.Redriven{}, err
	}
	options.Answered = task.Answered
	r, err := deadletter.Redrive(ctx, w, pipeline.Back{Queues: s.pipeline.Queues, Engine: s.pipeline.Engine}, options)
	err = interrupted(ctx, task, err)
	out := tasks.Redriven{Redriven: r.Redriven, Left: r.Left, Answered: r.Answered, Failed: r.Failed, Failures: r.Failures, Filter: task.Filter, Until: options.Until}
	if out.Done = r.Through || r.Redriven == task.Max && task.Max > 0; out.Done || err != nil {
		w.Release(ctx, releaseTime)
	}
	return out, err
}

// drop deletes dead letters of one queue. It ends as redrive does.
func (s *System) drop(ctx context.Context, task tasks.Task) (tasks.Dropped, error) {
	if err := (admin.DropOptions{ID: task.ID, Reason: task.Reason}).Validate(); err != nil {
		return tasks.Dropped{}, err
	}
	w, options, err := s.walk(task)
	if err != nil {
		return tasks.Dropped{}, err
	}
	r, err := deadletter.Drop(ctx, w, options)
	err = interrupted(ctx, task, err)
	out := tasks.Dropped{Dropped: r.Dropped, Letters: r.Letters, Filter: task.Filter, Until: options.Until}
	if out.Done = r.Through; out.Done || err != nil {
		w.Release(ctx, releaseTime)
	}
	return out, err
}

// walk returns a walk through the task's queue, and which of its letters the task selects.
func (s *System) walk(task tasks.Task) (*deadletter.Walk, deadletter.Options, error) {
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
func interrupted(ctx context.Context, task tasks.Task, err error) error {
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
