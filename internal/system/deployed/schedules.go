package deployed

import (
	"context"

	"github.com/effectively-once/once/internal/schedule"
)

// Schedules lists the schedules of the deployed configuration.
func (s *System) Schedules(ctx context.Context) ([]schedule.Info, error) {
	p, err := s.configured(ctx)
	if err != nil {
		return nil, err
	}
	list, err := schedule.List(ctx, s.store, p.config.ScheduleSettings(), s.options.Now())
	return list, explain(err)
}
