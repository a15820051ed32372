package lambda

import (
	"context"
	"fmt"
	"time"
)

// A Task is what a function is asked to do beside its queues: {"once": "sweep"} acts on gaps in the groups that have messages held, which an index names; {"once": "sweep-all"}
// reads the table of groups, as far as time allows, and finishes whatever crashed workers left; {"once": "redrive", "queue": "ingress-dead"} puts dead letters back. The schedule
// asks for sweeps, an operator for a redrive.
type Task struct {
	Once string `json:"once"`

	// What follows is of a redrive. Queue is the dead-letter queue: one of [DeadIngress] and its like that the function serves. Required.
	Queue string `json:"queue,omitempty"`
	// Reason keeps to dead letters with that reason. Defaults to all.
	Reason string `json:"reason,omitempty"`
	// Max is how many are put back at most. Defaults to [RedriveMost], which is also the most.
	Max int `json:"max,omitempty"`
	// Until leaves what was sent later: it may have been put back by the call before, and refused again. Defaults to now.
	Until time.Time `json:"until,omitzero"`
}

// The tasks.
const (
	TaskSweep    = "sweep"
	TaskSweepAll = "sweep-all"
	TaskRedrive  = "redrive"
)

// taskMargin is how long before the function's deadline a task ends, finished or not; the next one goes on, or begins elsewhere. A function that has little time keeps half of it.
const taskMargin = 5 * time.Second

// do does a task, and gives what it tells: Swept, or Redriven.
func (s *System) do(ctx context.Context, task Task) (any, error) {
	ctx, cancel := s.keep(ctx, margin)
	defer cancel()
	switch task.Once {
	case TaskSweep:
		return s.sweep(ctx, s.store.Waiting(ctx), s.pipeline.Engine.CloseGaps)
	case TaskSweepAll:
		return s.sweepAll(ctx)
	case TaskRedrive:
		return s.redrive(ctx, task)
	default:
		return nil, fmt.Errorf("there is no task %q: %s, %s and %s are served", task.Once, TaskSweep, TaskSweepAll, TaskRedrive)
	}
}

func margin(left time.Duration) time.Duration { return min(taskMargin, left/2) }

// keep ends a context ahead of its deadline, by a part of the time that is left. Without a deadline it does not.
func (s *System) keep(ctx context.Context, part func(left time.Duration) time.Duration) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-part(deadline.Sub(s.now()))))
}
