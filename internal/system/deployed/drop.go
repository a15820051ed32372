package deployed

import (
	"context"
	"fmt"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/admin/deadletter"
	"github.com/effectively-once/once/internal/system/function/tasks"
)

// Drop has the functions delete dead letters forever, each those of its own dead-letter queues, as
// Redrive has them put dead letters back. After an error, a repetition continues.
func (s *System) Drop(ctx context.Context, o admin.DropOptions) (admin.DropInfo, error) {
	info := admin.DropInfo{Letters: []admin.DeadLetter{}}
	if err := o.Validate(); err != nil {
		return info, err
	}
	queues, err := s.deadQueues(o.Queue)
	if err != nil {
		return info, err
	}
	if o.By == "" {
		o.By, _ = s.stack.Principal(ctx) // a drop does not need the permission
	}
	for _, q := range queues {
		if err := s.dropFrom(ctx, q.name, &o, &info); err != nil {
			return info, err
		}
	}
	return info, nil
}

// dropFrom calls the function of a dead-letter queue until it is done.
func (s *System) dropFrom(ctx context.Context, queue string, o *admin.DropOptions, info *admin.DropInfo) error {
	function, err := s.stack.functionOf(queue)
	if err != nil {
		return err
	}
	for idle := 0; idle < patience; idle++ {
		filter := deadletter.Filter{Stream: o.Stream, Reason: o.Reason, ID: o.ID, MessageIDs: o.MessageIDs}
		task := tasks.Task{Once: tasks.Drop, Queue: queue, Filter: filter, Until: o.Until, By: o.By}
		var out tasks.Dropped
		if err := s.stack.do(ctx, function, task, &out); err != nil {
			return err
		}
		o.Until = out.Until
		info.Dropped += out.Dropped
		info.Letters = append(info.Letters, out.Letters...)
		if err := heeded(function, filter, out.Filter); err != nil {
			return err
		}
		if out.Done {
			return nil
		}
		if out.Dropped > 0 {
			idle = -1
		}
	}
	return fmt.Errorf("drop from %s: %w", queue, ErrTooMany)
}
