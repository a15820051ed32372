package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // images for containers, Lambda and Windows have no time zones

	"github.com/netresearch/go-cron"
)

// A Timetable is a cron expression in a time zone. The zero value has no times.
type Timetable struct {
	wall cron.Schedule // in UTC, whose clock never jumps
	zone *time.Location
	// every says that the expression takes any hour: its times follow the clock of the zone.
	every bool
}

// searchYears is how many years Next looks ahead. From 2096 to 2104, no year has a February 29.
const searchYears = 9

// ParseZone returns the time zone of an IANA name; the empty name is UTC. Go also
// takes Local, which is an error here: it differs between machines.
func ParseZone(name string) (*time.Location, error) {
	if name == "Local" {
		return nil, errors.New("must be a name such as Europe/Berlin: the zone of the machine can differ between servers")
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("is not known: there is no time zone %q; use an IANA name such as Europe/Berlin or America/New_York", name)
	}
	return zone, nil
}

// Parse returns the timetable of a cron expression of five fields (minute, hour, day of month,
// month, day of week), or of @hourly, @daily, @midnight, @weekly, @monthly, @yearly or @annually.
//
// As in cron, a day matches if one of day of month and day of week does, unless one of them is *.
//
// If clocks are put forward or back: see [Timetable.Next].
func Parse(expression string, zone *time.Location) (Timetable, error) {
	text := strings.TrimSpace(expression)
	lower := strings.ToLower(text)
	switch {
	case text == "":
		return Timetable{}, errors.New("must not be empty")
	case strings.HasPrefix(lower, "@every"):
		return Timetable{}, errors.New("must name times, and @every counts from the start of a process: use */5 * * * * for every five minutes")
	case strings.Contains(lower, "tz="):
		return Timetable{}, errors.New("must not name a time zone: use the field timezone")
	case text[0] != '@' && len(strings.Fields(text)) != 5:
		return Timetable{}, fmt.Errorf("must have 5 fields (minute, hour, day of month, month, day of week), and has %d", len(strings.Fields(text)))
	}
	parser := cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom | cron.Descriptor).WithMaxSearchYears(searchYears)
	wall, err := parser.Parse(lower)
	if err == nil && slices.ContainsFunc(strings.Fields(text), limitsStar) {
		err = errStar
	}
	if err != nil {
		return Timetable{}, fmt.Errorf("is no cron expression: %w", fault(parser, text, err))
	}
	if s, ok := wall.(*cron.SpecSchedule); ok {
		s.Location = time.UTC
	}
	t := Timetable{wall: wall, zone: zone, every: lower == "@hourly" || text[0] != '@' && strings.ContainsAny(strings.Fields(text)[1][:1], "*?")}
	if t.wall.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return Timetable{}, errors.New("never happens: no date matches it")
	}
	return t, nil
}

var errStar = errors.New("* can't begin a range")

// limitsStar reports whether a field has a range that begins with * or its synonym ?, as in *-5.
// The parser reads it as * and ignores the end.
func limitsStar(field string) bool {
	return strings.Contains(field, "*-") || strings.Contains(field, "?-")
}

// fault returns the error of an expression that the parser refuses: it names the first field with a
// mistake, and what the field may have.
func fault(parser cron.Parser, text string, err error) error {
	if text[0] == '@' {
		return fmt.Errorf("%s is not known; use @hourly, @daily, @weekly, @monthly or @yearly", text)
	}
	allowed := [...]string{
		"minute %q must be from 0 to 59", "hour %q must be from 0 to 23", "day of month %q must be from 1 to 31",
		"month %q must be from 1 to 12, or JAN to DEC", "day of week %q must be from 0 (Sunday) to 7, or SUN to SAT",
	}
	for i, field := range strings.Fields(text) {
		alone := []string{"*", "*", "*", "*", "*"}
		alone[i] = strings.ToLower(field)
		if _, e := parser.Parse(strings.Join(alone, " ")); e != nil || limitsStar(field) {
			return fmt.Errorf(allowed[i]+", or *, a list 1,2, a range 1-5 or a step */2 of these", field)
		}
	}
	return err
}

// Next returns the first time after t, in UTC, or the zero time if there is none in the next years.
//
// If the hour field begins with * or its synonym ?, the times are those that the clock of the zone
// shows: none in an hour that is left out when clocks are put forward, and two for each minute of
// an hour that is repeated when they are put back. Otherwise every day has each of its times once:
// a time that is left out is moved to the moment at which the clocks are put forward, and of a
// repeated one only the first counts.
func (t Timetable) Next(after time.Time) time.Time {
	if t.wall == nil {
		return time.Time{}
	}
	at := after.In(t.zone)
	last := at.Year() + searchYears
	search := t.unrepeated(at, wallClock(at))
	for at.Year() <= last {
		_, end := at.ZoneBounds()
		next := t.wall.Next(search)
		if next.IsZero() {
			return time.Time{}
		}
		found := next.Add(at.Sub(wallClock(at)))
		if end.IsZero() || found.Before(end) {
			return found.UTC()
		}
		// no time is left before the clocks are changed at end
		if !t.every && next.Before(wallClock(end)) {
			return end.UTC()
		}
		at, search = end, t.unrepeated(end, wallClock(end).Add(-1))
	}
	return time.Time{}
}

// unrepeated returns the time on the clock of the zone after which Next searches. That is search,
// or later if the clock was put back at the start of the offset of at: times that it showed before
// that do not count again.
func (t Timetable) unrepeated(at, search time.Time) time.Time {
	start, _ := at.ZoneBounds()
	if t.every || start.IsZero() {
		return search
	}
	if before := wallClock(start.Add(-1)); before.After(search) {
		return before
	}
	return search
}

// wallClock returns the time that a clock in the zone of t shows, as if it were a time in UTC.
func wallClock(t time.Time) time.Time {
	_, offset := t.Zone()
	return t.Add(time.Duration(offset) * time.Second).UTC()
}

// Latest returns the last time that is after from and not after until, or the zero time if there is
// none.
func (t Timetable) Latest(from, until time.Time) time.Time {
	// The window before until is doubled as long as it is empty: minutes or years may lie between
	// two times.
	for window := time.Hour; ; window *= 2 {
		start := until.Add(-window)
		if whole := !start.After(from); whole {
			return t.lastIn(from, until)
		}
		if last := t.lastIn(start, until); !last.IsZero() {
			return last
		}
	}
}

func (t Timetable) lastIn(from, until time.Time) (last time.Time) {
	for next := t.Next(from); !next.IsZero() && !next.After(until); next = t.Next(next) {
		last = next
	}
	return last
}

// Count returns the number of times that are after from and before until, and at most limit.
func (t Timetable) Count(from, until time.Time, limit int) (n int) {
	for next := t.Next(from); n < limit && !next.IsZero() && next.Before(until); next = t.Next(next) {
		n++
	}
	return n
}
