package pipeline

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/schedule"
)

// scheduleAhead is how long before its time a tick is put on a queue that delays it. It is longer
// than the time between two sweeps of a deployed system, so that a late sweep makes no tick late.
const scheduleAhead = 5 * time.Minute

// Schedules makes the configured schedules. Their records are in store. Their ticks get tokens from
// engine, and are put on queue: at their times, or before if the queues of the pipeline delay
// messages themselves.
func (p *Pipeline) Schedules(store schedule.Store, engine schedule.Engine, queue schedule.Queue) (*schedule.Schedules, error) {
	list := p.cfg.Config.ScheduleSettings()
	for _, x := range list {
		if s, ok := p.Engine.Stream(x.Stream); ok && s.Admission == record.BySequence { // set by code
			return nil, fmt.Errorf("schedule %s: stream %s has admission sequence: the messages of a schedule have no numbers", x.Name, x.Stream)
		}
	}
	return schedule.New(schedule.Config{
		Schedules: list, Store: store, Engine: engine, Queue: queue, Ahead: min(scheduleAhead, p.cfg.Ports.Delays.Horizon), Now: p.cfg.Now, NewID: rand.Text, Log: p.cfg.Log,
	})
}
