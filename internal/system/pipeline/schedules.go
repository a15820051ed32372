package pipeline

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/schedule"
)

// Schedules makes the configured schedules. Their records are in store. Their ticks get tokens from
// engine, and are put on queue up to ahead before their times; the queue has to delay them.
func (p *Pipeline) Schedules(store schedule.Store, engine schedule.Engine, queue schedule.Queue, ahead time.Duration) (*schedule.Schedules, error) {
	list := p.cfg.Config.ScheduleSettings()
	for _, x := range list {
		if s, ok := p.Engine.Stream(x.Stream); ok && s.Admission == record.BySequence { // set by code
			return nil, fmt.Errorf("schedule %s: stream %s has admission sequence: the messages of a schedule have no numbers", x.Name, x.Stream)
		}
	}
	return schedule.New(schedule.Config{
		Schedules: list, Store: store, Engine: engine, Queue: queue, Ahead: ahead, Now: p.cfg.Now, NewID: rand.Text, Log: p.cfg.Log,
	})
}
