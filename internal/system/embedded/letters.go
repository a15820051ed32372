package embedded

import (
	"time"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/queue/pebblequeue"
	"github.com/effectively-once/once/internal/record"
)

const (
	// trimBatch is how many dead letters one call drops from a queue.
	trimBatch = 10_000
	// noticeEvery is the time between two warnings of dead letters that one queue will drop.
	noticeEvery = time.Hour
)

func (s *System) letterBounds() config.DeadLetters {
	if g := s.now(); g != nil {
		return g.config.DeadLetters.WithDefaults()
	}
	return s.options.Config.DeadLetters.WithDefaults()
}

// noticeTime is how long before it is dropped a dead letter is announced: a day, or half of a short
// retention.
func noticeTime(b config.DeadLetters) time.Duration { return min(24*time.Hour, b.Retain.Std()/2) }

// lettersBefore returns the time before which the dead letters were sent that are due to be dropped
// at a time. Those that became so old while no process ran are announced first.
func (s *System) lettersBefore(at time.Time) time.Time {
	b := s.letterBounds()
	if at.Before(s.lettersSince.Add(noticeTime(b))) {
		return time.Time{}
	}
	return at.Add(-b.Retain.Std())
}

// sweepLetters drops the dead letters that are too old, and announces those that will be.
func (s *System) sweepLetters(now time.Time) {
	s.dropLetters(s.lettersBefore(now))
	for _, q := range s.queueStats() {
		for by, due := range map[string]bool{"retain": q.Expiring > 0, "most": q.NearlyFull()} {
			if key := q.Queue + " " + by; due && now.Sub(s.lettersNoticed[key]) >= noticeEvery {
				s.lettersNoticed[key] = now
				s.options.Log.Warn("dead letters will be dropped", "queue", q.Queue, "by", "dead_letters."+by, "within_a_day", q.Expiring, "letters", q.Depth(), "most", q.Most)
			}
		}
	}
}

// dropLetters drops the dead letters that were sent before a time, and those beyond the bound.
func (s *System) dropLetters(before time.Time) {
	most := s.letterBounds().Most
	for _, q := range s.queues.deads() {
		for before.After(time.Time{}) || q.Len() > most {
			gone, err := q.Trim(before, most, trimBatch)
			if err != nil {
				s.options.Log.Error("dead letters not dropped", "queue", q.Name(), "error", err)
			}
			if len(gone) > 0 {
				s.letterDropped(q.Name(), gone)
			}
			if len(gone) < trimBatch {
				break
			}
		}
	}
}

// letterDropped counts dead letters that were dropped, and logs how many there were.
func (s *System) letterDropped(name string, gone []pebblequeue.Trimmed) {
	s.dirty.Store(true)
	streams := map[string]int{}
	for _, g := range gone {
		streams[g.Stream]++
	}
	for stream, n := range streams {
		s.telemetry.Observe(record.Event{Name: record.EventDropped, Stream: stream, Count: n})
		s.options.Log.Warn("dead letters dropped", "queue", name, "stream", stream, "count", n, "sent_from", gone[0].Sent, "sent_to", gone[len(gone)-1].Sent)
	}
}
