package function

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/system/function/tasks"
)

// taskMargin is the time before the function's deadline at which a task ends, finished or not. The
// next redrive continues; the next sweep begins at another group. If a function has less than twice
// this time, the margin is half of it.
const taskMargin = 5 * time.Second

// do does a task, and returns its answer: tasks.Swept, tasks.Redriven, tasks.Dropped or
// tasks.Skipped.
func (s *System) do(ctx context.Context, task tasks.Task) (any, error) {
	ctx, cancel := s.keep(ctx, margin)
	defer cancel()
	switch task.Once {
	case tasks.Sweep:
		return s.sweepEach(ctx)
	case tasks.SweepAll:
		return s.sweepAll(ctx)
	case tasks.Redrive:
		return s.redrive(ctx, task)
	case tasks.Drop:
		return s.drop(ctx, task)
	case tasks.Skip:
		return s.skip(ctx, task)
	default:
		return nil, fmt.Errorf("unknown task %q: it must be %s, %s, %s, %s or %s", task.Once, tasks.Sweep, tasks.SweepAll, tasks.Redrive, tasks.Drop, tasks.Skip)
	}
}

// skip makes a pending effect a dead letter. The publish function does it, as it dead-letters all
// other effects.
func (s *System) skip(ctx context.Context, task tasks.Task) (tasks.Skipped, error) {
	if s.function != Publish {
		return tasks.Skipped{}, fmt.Errorf("skip: function %s does not publish; ask %s", s.function, Publish)
	}
	info, err := s.pipeline.Skip(ctx, admin.SkipOptions{Stream: task.Stream, Group: task.Group, Number: task.Number})
	if errors.Is(err, admin.ErrNotFound) {
		return tasks.Skipped{Destinations: []string{}}, nil
	}
	if err != nil {
		return tasks.Skipped{}, fmt.Errorf("skip: %w", err)
	}
	return tasks.Skipped(info), nil
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
