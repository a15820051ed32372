package embedded

import (
	"context"
	"log/slog"
	"time"

	"github.com/effectively-once/once/internal/schedule"
)

// scheduleEvery is the longest time without a look at the clock. A timer does not see that the
// clock was set, or that the machine was asleep.
const scheduleEvery = time.Second

// scheduleForever sends the ticks of the schedules at their times, until the context ends.
func (s *System) scheduleForever(ctx context.Context) {
	failures := scheduleFailures{log: s.options.Log}
	for ctx.Err() == nil {
		g := s.now()
		next, err := g.schedules.Send(ctx)
		now := s.options.Now()
		if err != nil {
			next = now.Add(scheduleEvery)
			if ctx.Err() == nil {
				failures.report(err, now)
			}
		}
		s.untilScheduled(ctx, g, next)
	}
}

// remindOfSchedules is the time between two log lines about the same error.
const remindOfSchedules = time.Minute

// scheduleFailures logs the errors of schedules, which are tried again every second.
type scheduleFailures struct {
	log  *slog.Logger
	text string    // of the error that was logged last
	at   time.Time // when it was logged
}

// report logs an error, unless the same one was logged less than a minute ago.
func (f *scheduleFailures) report(err error, now time.Time) {
	if err.Error() == f.text && now.Sub(f.at).Abs() < remindOfSchedules {
		return
	}
	f.text, f.at = err.Error(), now
	f.log.Error("schedules not sent; they are tried again every second", "error", err)
}

// untilScheduled waits until a time, or until a generation is replaced. The zero time never comes.
func (s *System) untilScheduled(ctx context.Context, g *generation, next time.Time) {
	for g == s.now() && ctx.Err() == nil {
		wait := scheduleEvery
		if !next.IsZero() {
			wait = min(wait, next.Sub(s.options.Now()))
		}
		if wait <= 0 {
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-s.replaced:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Schedules lists the configured schedules.
func (s *System) Schedules(ctx context.Context) ([]schedule.Info, error) {
	return schedule.List(ctx, s.store, s.now().config.ScheduleSettings(), s.options.Now())
}
