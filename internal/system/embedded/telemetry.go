package embedded

import (
	"context"
	"time"

	"github.com/effectively-once/once/internal/front/console"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/telemetry"
	"github.com/effectively-once/once/internal/telemetry/provided"
	"github.com/effectively-once/once/internal/telemetry/recent"
	"github.com/effectively-once/once/internal/telemetry/scrape"
)

// openTelemetry makes the observers of the system.
func (s *System) openTelemetry() (err error) {
	if s.options.Inspect {
		s.telemetry = telemetry.Local(telemetry.Options{})
		return nil
	}
	s.metrics, s.recent = scrape.New(s.options.Now, s.depths), recent.New(s.options.Now)
	s.metrics.WatchDelayed(s.notDue)
	also := func(e *record.Event) {
		s.metrics.Observe(e)
		s.recent.Observe(e)
	}
	o := telemetry.Options{Collector: s.options.Collector, Known: s.knows, Also: also, Ran: s.recent.Ran, Now: s.options.Now, Log: s.options.Log}
	if s.options.MeterProvider != nil || s.options.TracerProvider != nil {
		c, err := provided.New(s.options.MeterProvider, s.options.TracerProvider, s.options.Now)
		if err != nil {
			return err
		}
		s.telemetry = telemetry.With(o, c)
		return nil
	}
	if o.Collector == nil {
		s.telemetry = telemetry.Local(o)
		return nil
	}
	s.telemetry, err = telemetry.Open(context.Background(), o)
	return err
}

// report reports to a collector until stop is called, and then once more.
func (s *System) report(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.telemetry.Run(ctx, 0)
	}()
	return func() {
		cancel()
		<-done
	}
}

// knows reports whether there is a stream.
func (s *System) knows(stream string) bool {
	_, ok := s.engine.Stream(stream)
	return ok
}

// denied counts a request that was refused.
func (s *System) denied(reason string) {
	s.telemetry.Observe(record.Event{Name: record.EventDenied, Reason: record.Reason(reason), Count: 1})
}

// depths returns how many messages are in each queue.
func (s *System) depths() (all []scrape.Depth) {
	for _, q := range s.queues.all() {
		st := q.Stats()
		all = append(all, scrape.Depth{Queue: q.Name(), Ready: st.Ready, InFlight: st.InFlight, Delayed: st.Delayed})
	}
	return all
}

// notDue returns how many delayed messages wait, and when the earliest one is due. If some can't
// be read, the keeper logs that.
func (s *System) notDue() (waiting int, next time.Time) {
	st, _ := s.queues.delayed.Stats(context.Background())
	return st.Waiting, st.Next
}

// rates returns the charts of the console.
func (s *System) rates(_ context.Context, stream string) (console.Rates, error) {
	if s.recent == nil {
		return console.Rates{Step: recent.Step, Steps: recent.Steps}, nil
	}
	x := s.recent.Series(stream)
	rate := func(name string, values []float64) console.Chart {
		return console.Chart{Name: name, Unit: console.PerSecond, Lines: []console.Line{{Values: values}}}
	}
	return console.Rates{Step: recent.Step, Steps: recent.Steps, Charts: []console.Chart{
		rate("accepted", x.Accepted), rate("done", x.Done), rate("failed", x.Failed), rate("dead letters", x.Dead),
		{Name: "handler", Unit: console.Seconds, Lines: []console.Line{{Name: "p50", Values: x.P50}, {Name: "p99", Values: x.P99}}},
	}}, nil
}
