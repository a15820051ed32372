package process

import (
	"time"

	"github.com/effectively-once/once/internal/record"
)

// The shortest and the longest delay of a message that is put back; no queue takes a longer one.
const (
	minBackoff = time.Second
	maxBackoff = 15 * time.Minute
)

// Backoff returns the delay of a message that is too far ahead of its predecessors: a quarter of
// the time since it was accepted, from one second to 15 minutes. If its predecessors come soon, it
// loses little time; if it waits for days, it costs four calls an hour instead of one each second.
func Backoff(m *record.Message, now time.Time) time.Duration {
	if m.Accepted.IsZero() {
		return minBackoff
	}
	return min(max(now.Sub(m.Accepted)/4, minBackoff), maxBackoff).Truncate(time.Second)
}
