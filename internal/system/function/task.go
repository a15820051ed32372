package function

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/admin/deadletter"
)

// A Task is a request to a function outside its queues:
//
//   - {"once": "sweep"} moves delayed messages that are due soon to their queues, acts on gaps in the
//     groups that have messages held, which an index names, and continues the ends of streams
//   - {"once": "sweep-all"} reads the table of groups, as far as time allows, and finishes the work of
//     crashed workers
//   - {"once": "redrive", "queue": "ingress-dead"} puts dead letters back
//   - {"once": "drop", "queue": "ingress-dead", "id": "order-1"} deletes them
//   - {"once": "skip", "stream": "orders", "group": "customer-7", "number": 3} makes a pending effect
//     a dead letter
//
// The schedule asks for sweeps, an operator for the others.
type Task struct {
	Once string `json:"once"`

	// The next fields belong to a redrive and to a drop. Queue is the dead-letter queue: one of
	// [DeadIngress] and the others that the function serves. Required.
	Queue string `json:"queue,omitempty"`
	// Filter selects dead letters. Defaults to all; a drop needs an id or a reason.
	deadletter.Filter
	// Max is the largest number of dead letters to put back. Defaults to 1000, which is
	// also the most.
	Max int `json:"max,omitempty"`
	// Until keeps out messages that were sent later: the call before may have put them back, and
	// they were refused again. Defaults to now.
	Until time.Time `json:"until,omitzero"`
	// By names the operator of a drop in the log.
	By string `json:"by,omitempty"`

	// Group and Number name the effect of a skip, with the Stream of the filter.
	Group  string `json:"group,omitempty"`
	Number uint64 `json:"number,omitempty"`
}

// Skipped is the answer to a skip. If there are no destinations, the effect is not pending.
type Skipped struct {
	Destinations []string `json:"destinations"`
}

// readTask returns the task in an event, and false if the event has none. A task with a field that
// this version does not know is refused: the field may spare dead letters.
func readTask(event json.RawMessage) (task Task, ok bool, err error) {
	var named struct{ Once string }
	if err := json.Unmarshal(event, &named); err != nil || named.Once == "" {
		return Task{}, false, nil //nolint:nilerr // an event of SQS, or no event at all
	}
	d := json.NewDecoder(bytes.NewReader(event))
	d.DisallowUnknownFields()
	if err := d.Decode(&task); err != nil {
		return Task{}, true, fmt.Errorf("read task %s: %w; the function and the caller must have the same version", named.Once, err)
	}
	return task, true, nil
}

// The tasks.
const (
	TaskSweep    = "sweep"
	TaskSweepAll = "sweep-all"
	TaskRedrive  = "redrive"
	TaskDrop     = "drop"
	TaskSkip     = "skip"
)

// taskMargin is the time before the function's deadline at which a task ends, finished or not. The
// next redrive continues; the next sweep begins at another group. If a function has less than twice
// this time, the margin is half of it.
const taskMargin = 5 * time.Second

// do does a task, and returns its answer: Swept, Redriven, Dropped or Skipped.
func (s *System) do(ctx context.Context, task Task) (any, error) {
	ctx, cancel := s.keep(ctx, margin)
	defer cancel()
	switch task.Once {
	case TaskSweep:
		return s.sweepEach(ctx)
	case TaskSweepAll:
		return s.sweepAll(ctx)
	case TaskRedrive:
		return s.redrive(ctx, task)
	case TaskDrop:
		return s.drop(ctx, task)
	case TaskSkip:
		return s.skip(ctx, task)
	default:
		return nil, fmt.Errorf("unknown task %q: it must be %s, %s, %s, %s or %s", task.Once, TaskSweep, TaskSweepAll, TaskRedrive, TaskDrop, TaskSkip)
	}
}

// skip makes a pending effect a dead letter. The publish function does it, as it dead-letters all
// other effects.
func (s *System) skip(ctx context.Context, task Task) (Skipped, error) {
	if s.function != Publish {
		return Skipped{}, fmt.Errorf("skip: function %s does not publish; ask %s", s.function, Publish)
	}
	info, err := s.pipeline.Skip(ctx, admin.SkipOptions{Stream: task.Stream, Group: task.Group, Number: task.Number})
	if errors.Is(err, admin.ErrNotFound) {
		return Skipped{Destinations: []string{}}, nil
	}
	if err != nil {
		return Skipped{}, fmt.Errorf("skip: %w", err)
	}
	return Skipped(info), nil
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
