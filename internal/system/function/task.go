package function

import (
	"context"
	"fmt"
	"time"
)

// A Task is a request to a function outside its queues: {"once": "sweep"} acts on gaps in the
// groups that have messages held, which an index names; {"once": "sweep-all"} reads the table of
// groups, as far as time allows, and finishes the work of crashed workers; {"once": "redrive",
// "queue": "ingress-dead"} puts dead letters back; {"once": "drop", "queue": "ingress-dead", "id":
// "order-1"} deletes them. The schedule asks for sweeps, an operator for a redrive or a drop.
type Task struct {
	Once string `json:"once"`

	// The other fields belong to a redrive and to a drop. Queue is the dead-letter queue: one of
	// [DeadIngress] and the others that the function serves. Required.
	Queue string `json:"queue,omitempty"`
	// Reason and ID keep to dead letters that match. Default to all; a drop needs one of them.
	Reason string `json:"reason,omitempty"`
	ID     string `json:"id,omitempty"`
	// Max is the largest number of dead letters to put back. Defaults to 1000, which is
	// also the most.
	Max int `json:"max,omitempty"`
	// Until keeps out messages that were sent later: the call before may have put them back, and
	// they were refused again. Defaults to now.
	Until time.Time `json:"until,omitzero"`
}

// The tasks.
const (
	TaskSweep    = "sweep"
	TaskSweepAll = "sweep-all"
	TaskRedrive  = "redrive"
	TaskDrop     = "drop"
)

// taskMargin is the time before the function's deadline at which a task ends, finished or not; the
// next one goes on, or begins elsewhere. If a function has little time, it keeps half of it.
const taskMargin = 5 * time.Second

// do does a task, and returns its answer: Swept, Redriven or Dropped.
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
	case TaskDrop:
		return s.drop(ctx, task)
	default:
		return nil, fmt.Errorf("there is no task %q: %s, %s, %s and %s are served", task.Once, TaskSweep, TaskSweepAll, TaskRedrive, TaskDrop)
	}
}

func margin(left time.Duration) time.Duration { return min(taskMargin, left/2) }

// keep ends a context ahead of its deadline, by a part of the time that is left. Without a deadline
// it does not.
func (s *System) keep(ctx context.Context, part func(left time.Duration) time.Duration) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-part(deadline.Sub(s.now()))))
}
