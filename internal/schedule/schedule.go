package schedule

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// Principal is the principal of ticks. No client can have it, because the HTTP API and the SQS
// endpoint refuse principals that start with a tilde.
const Principal = "~schedule"

// The headers of a tick.
const (
	HeaderSchedule = "Schedule"      // the schedule's name
	HeaderFor      = "Scheduled-For" // the nominal time, in RFC 3339 and UTC
)

// MaxBody is the largest body of a schedule in bytes: the record has to hold a tick.
const MaxBody = 64 << 10

// A Schedule says which message is sent when.
type Schedule struct {
	// Name is that of the schedule, unique in the system.
	Name string
	// Cron is an expression for [Parse], and Zone a name for [ParseZone].
	Cron, Zone string
	// Stream gets the messages.
	Stream string
	// Group is the group of the messages. Defaults to Name.
	Group       string
	ContentType string
	Body        []byte
}

// Timetable returns the times of the schedule.
func (s *Schedule) Timetable() (Timetable, error) {
	zone, err := ParseZone(s.Zone)
	if err != nil {
		return Timetable{}, err
	}
	return Parse(s.Cron, zone)
}

// ID returns the id of the tick at a time.
func (s *Schedule) ID(tick time.Time) string { return s.Name + "/" + tick.UTC().Format(time.RFC3339) }

// IsID reports whether an id has the form of a tick's id.
func IsID(id string) bool {
	i := strings.LastIndexByte(id, '/')
	if i < 0 {
		return false
	}
	_, err := time.Parse(time.RFC3339, id[i+1:])
	return err == nil
}

// Message returns the tick at a time.
func (s *Schedule) Message(tick time.Time) record.Message {
	return record.Message{
		Principal: Principal, Stream: s.Stream, ID: s.ID(tick), Group: cmp.Or(s.Group, s.Name),
		ContentType: s.ContentType, Body: s.Body,
		Headers: map[string]string{HeaderSchedule: s.Name, HeaderFor: tick.UTC().Format(time.RFC3339)},
	}
}

// Check returns an error if no stream would take the messages of the schedule.
func (s *Schedule) Check() error {
	if len(s.Body) > MaxBody {
		return fmt.Errorf("body must be at most %d bytes", MaxBody)
	}
	m := s.Message(time.Unix(0, 0))
	return m.Validate()
}
