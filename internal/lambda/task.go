package lambda

import (
	"context"
	"fmt"
	"time"
)

// A Task is what a function is asked to do beside its queues: {"once": "sweep"} acts on gaps in the groups that have messages held, which an index names; {"once": "sweep-all"}
// reads the whole table of groups and finishes whatever crashed workers left; {"once": "redrive", "queue": "ingress-dead"} puts dead letters back. The schedule asks
// for sweeps, an operator for a redrive.
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

// taskMargin is how long before the function's deadline a task ends, finished or not; the next one goes on, or begins anew.
const taskMargin = 5 * time.Second

// do does a task, and gives what it tells: Swept, or Redriven.
func (s *System) do(ctx context.Context, task Task) (any, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-taskMargin))
		defer cancel()
	}
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

func (s *System) sweepAll(ctx context.Context) (Swept, error) {
	swept, err := s.sweep(ctx, s.unfinished(ctx), s.pipeline.Engine.Sweep)
	if err != nil || !s.bucket {
		return swept, err
	}
	swept.Strays, err = s.sweepStrays(ctx)
	return swept, err
}
