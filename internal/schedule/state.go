package schedule

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// keep is how long the record of a schedule outlives the next tick. If a schedule sends nothing for
// so long, it starts again as a new schedule.
const keep = 400 * 24 * time.Hour

// A state is the content of the record of a schedule. Times are in UTC.
type state struct {
	// Cron and Zone are those of the schedule that wrote the record.
	Cron string `json:"cron"`
	Zone string `json:"zone,omitempty"`
	// Through is the time up to which all ticks are decided. It never falls.
	Through time.Time `json:"through"`
	// Begun is the tick that is being sent, or nil.
	Begun *begun `json:"begun,omitempty"`
	// Last is the time of the last tick that is on the queue, and Sent is when it was put there.
	// Both are zero if there is none.
	Last time.Time `json:"last,omitzero"`
	Sent time.Time `json:"sent,omitzero"`
	// Missed counts the times that were skipped, over the life of the record.
	Missed uint64 `json:"missed,omitempty"`
}

// A begun tick is the time and the whole message: each copy of it is the same.
type begun struct {
	Tick     time.Time `json:"tick"`
	Accepted time.Time `json:"accepted"`
	// Ahead says that the tick was begun before its time: the queue delays it.
	Ahead       bool   `json:"ahead,omitempty"`
	Stream      string `json:"stream"`
	Group       string `json:"group"`
	ContentType string `json:"content_type,omitempty"`
	Body        []byte `json:"body,omitempty"`
}

// message returns the message of a tick that was begun.
func (b *begun) message(name string) record.Message {
	s := Schedule{Name: name, Stream: b.Stream, Group: b.Group, ContentType: b.ContentType, Body: b.Body}
	m := s.Message(b.Tick)
	m.Accepted = b.Accepted
	if b.Ahead {
		m.NotBefore = b.Tick
	}
	return m
}

// readState returns the state in a record, and false if there is no record.
func readState(g *record.Group) (st state, found bool, err error) {
	if g.Version == 0 {
		return state{}, false, nil
	}
	if err := json.Unmarshal(g.State, &st); err != nil {
		return state{}, true, fmt.Errorf("read the record of schedule %s: %w: %w", g.Key.Group, record.ErrCorrupt, err)
	}
	return st, true, nil
}

// key returns the key of the record of a schedule.
func key(name string) record.GroupKey {
	return record.GroupKey{Stream: record.SchedulesStream, Group: name}
}
