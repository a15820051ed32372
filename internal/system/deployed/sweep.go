package deployed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/function/tasks"
)

// Sweep looks at every group, which reads the whole table. If nothing of a group needs publishing,
// it marks the group done; if something is pending, it asks the deployed functions to publish it.
// It leaves groups that hold messages to the function that sweeps on a schedule, and has it sweep
// now: handlers run there only, and only the functions are trusted senders. Expired records are
// deleted by the tables' time-to-live, and blobs by the bucket's lifecycle.
func (s *System) Sweep(ctx context.Context) (admin.SweepInfo, error) {
	var info admin.SweepInfo
	p, err := s.configured(ctx)
	if err != nil {
		return info, err
	}
	var waiting []record.GroupKey
	err = record.EachGroup(ctx, s.store, "", s.passedOver, func(g *record.Group) error {
		info.Groups++
		switch err := p.sweep(ctx, g); {
		case errors.Is(err, errIdle):
		case errors.Is(err, errElsewhere):
			waiting = append(waiting, g.Key)
		case err == nil:
			info.Finished++
		default:
			info.Failed++
			s.notSwept(g.Key, err)
		}
		return ctx.Err()
	})
	if len(waiting) == 0 || err != nil {
		info.Failed += len(waiting)
		return info, explain(err)
	}
	if err := s.stack.drain(ctx); err != nil {
		info.Failed += len(waiting)
		s.options.Log.Warn("groups that hold messages not swept: the scheduled sweep tries again", "groups", len(waiting), "error", err)
		return info, nil
	}
	if info.Waiting, err = s.stillHold(ctx, waiting); err != nil {
		return info, explain(err)
	}
	info.Finished += len(waiting) - info.Waiting
	return info, nil
}

// loadAtOnce is how many groups one read loads.
const loadAtOnce = 100

// stillHold counts the groups that hold messages.
func (s *System) stillHold(ctx context.Context, keys []record.GroupKey) (n int, err error) {
	for some := range slices.Chunk(keys, loadAtOnce) {
		groups, _, err := s.store.Load(ctx, some, nil)
		if err != nil {
			return n, err
		}
		for i := range groups {
			if groups[i].HasHeld() {
				n++
			}
		}
	}
	return n, nil
}

// errIdle reports that a group needs no sweep.
var errIdle = errors.New("nothing is left over")

// sweep finishes the part of a group that needs no handler.
func (p *parts) sweep(ctx context.Context, g *record.Group) error {
	switch {
	case g.Idle() && !g.MissingExpiry():
		return errIdle
	case !g.HasHeld():
		return p.engine.Sweep(ctx, g.Key)
	case !g.HasEffects():
		return errElsewhere
	}
	return cmp.Or(p.queues.Trigger(ctx, []record.GroupKey{g.Key}, 0), errElsewhere)
}

func (s *System) notSwept(key record.GroupKey, err error) {
	if errors.Is(err, record.ErrNoStream) {
		err = s.unknown(key.Stream)
	}
	s.options.Log.LogAttrs(context.Background(), slog.LevelWarn, "group not swept", append(key.LogAttrs(false), slog.Any("error", err))...)
}

// drain has the deployed sweep run the held messages that can run.
func (s *Stack) drain(ctx context.Context) error {
	sweeper, err := s.sweeper(ctx)
	if err != nil {
		return err
	}
	var swept tasks.Swept
	if err := s.do(ctx, sweeper, tasks.Task{Once: tasks.Sweep}, &swept); err != nil {
		return err
	}
	if swept.Failed > 0 {
		return fmt.Errorf("function %s could not sweep %d of %d groups: see its log", sweeper, swept.Failed, swept.Groups)
	}
	if !swept.Done {
		return fmt.Errorf("function %s had time for only %d groups: sweep again to reach the others", sweeper, swept.Groups)
	}
	return nil
}

// sweeper returns the function that a rule sends tasks to: it has the handlers of every stream.
func (s *Stack) sweeper(ctx context.Context) (string, error) {
	functions, err := s.functions(ctx)
	if err != nil {
		return "", err
	}
	for _, f := range functions {
		var out struct{ RuleNames []string }
		if err := s.events.JSON(ctx, "ListRuleNamesByTarget", map[string]any{"TargetArn": f.arn}, &out); err != nil {
			return "", fmt.Errorf("find schedule of the sweep: %w", explain(err))
		}
		if len(out.RuleNames) > 0 {
			return f.name, nil
		}
	}
	return "", fmt.Errorf("no schedule sends the sweep to a function of stack %s", s.Name)
}
