package embedded

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/effectively-once/once/internal/admin/deadletter"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

const (
	// lettersFile is the file in the data folder with the time from which dead letters expire.
	lettersFile = "dead-letters-expire-since"
	// trimBatch is how many dead letters one call drops from a queue.
	trimBatch = 1000
	// maxExpiring is how many dead letters are counted that will be dropped because of their age.
	maxExpiring = 10_000
	// noticeEvery is the time between two warnings of dead letters that will be dropped.
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
// at a time. A folder of a version that kept them for ever drops none before it has announced them.
func (s *System) lettersBefore(at time.Time) time.Time {
	b := s.letterBounds()
	if at.Before(s.lettersSince.Add(noticeTime(b))) {
		return time.Time{}
	}
	return at.Add(-b.Retain.Std())
}

// readLettersSince reads the time from which the dead letters of the folder expire: that of the first
// start of a version that drops them.
func (s *System) readLettersSince() error {
	path, now := filepath.Join(s.options.DataDir, lettersFile), s.options.Now()
	s.lettersSince = now
	data, err := fs.ReadFile(os.DirFS(s.options.DataDir), lettersFile)
	if err == nil {
		if since, err := time.Parse(time.RFC3339, string(data)); err == nil {
			s.lettersSince = since
			return nil
		}
	}
	if s.options.Inspect {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(path, []byte(now.UTC().Format(time.RFC3339)), 0o600)
}

// sweepLetters drops the dead letters that are too old, and announces those that will be.
func (s *System) sweepLetters(now time.Time) {
	s.dropLetters(s.lettersBefore(now))
	if now.Sub(s.lettersNoticed) < noticeEvery {
		return
	}
	stats, err := s.queueStats()
	if err != nil {
		s.options.Log.Error("dead letters not counted", "error", err)
		return
	}
	for _, q := range stats {
		if q.Expiring > 0 || q.NearlyFull() {
			s.lettersNoticed = now
			s.options.Log.Warn("dead letters will be dropped", "queue", q.Queue, "within_a_day", q.Expiring, "letters", q.Depth(), "most", q.Most)
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
func (s *System) letterDropped(name string, gone []queue.Delivery) {
	s.dirty.Store(true)
	streams := map[string]int{}
	for i := range gone {
		l := deadletter.Read(name, gone[i], trusting().Trusted)
		streams[l.Info().Stream]++
	}
	for stream, n := range streams {
		s.telemetry.Observe(record.Event{Name: record.EventDropped, Stream: stream, Count: n})
		s.options.Log.Warn("dead letters dropped", "queue", name, "stream", stream, "count", n, "sent_from", gone[0].Sent, "sent_to", gone[len(gone)-1].Sent)
	}
}
