package deployed

import (
	"context"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/admin/deadletter"
	"github.com/effectively-once/once/internal/system/function/tasks"
)

// Skip has the publish function make a pending effect a dead letter.
func (s *System) Skip(ctx context.Context, o admin.SkipOptions) (admin.SkipInfo, error) {
	function, err := s.stack.functionOf(tasks.DeadPublish)
	if err != nil {
		return admin.SkipInfo{}, err
	}
	task := tasks.Task{Once: tasks.Skip, Filter: deadletter.Filter{Stream: o.Stream}, Group: o.Group, Number: o.Number}
	var out tasks.Skipped
	if err := s.stack.do(ctx, function, task, &out); err != nil {
		return admin.SkipInfo{}, err
	}
	if len(out.Destinations) == 0 {
		return admin.SkipInfo{}, o.NotPending()
	}
	return admin.SkipInfo(out), nil
}
