package record

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"
)

// A Timer is a message that a group sends to itself at a later time. The commit that sets it puts
// it into the group's record, with an effect that carries the message. The message is processed
// only if the record has a timer of its name and number, and its commit removes the timer. So a
// commit that cancels or replaces a timer wins over every later delivery of its message, and no
// token is needed to process the message once.
type Timer struct {
	// Number is the number of the effect that set the timer.
	Number uint64
	Due    time.Time
}

// ToTimer is the destination of the effects that carry the messages of timers. No configured
// destination can have this name.
const ToTimer = "@timer"

// Bounds on the timers of one group: its record is read and written with every message.
const (
	MaxTimers     = 1000
	MaxTimerNames = 32 << 10 // bytes of all names together
)

// ValidDelay returns an error if an effect or a timer can't be delayed by that much.
func ValidDelay(after time.Duration) error {
	switch {
	case after < 0:
		return fmt.Errorf("a delay of %s: it must not be negative", after)
	case after > MaxDelay:
		return fmt.Errorf("a delay of %s: at most %d days", after, MaxDelay/(24*time.Hour))
	}
	return nil
}

// ValidTimer checks the name of a timer: 1 to 256 bytes of UTF-8 text without control characters.
func ValidTimer(name string) error {
	if name == "" {
		return errors.New("the name of a timer must not be empty")
	}
	if err := validName("timer", name); err != nil {
		return fmt.Errorf("the name of a %w", err)
	}
	return nil
}

// due returns the time after a delay, rounded up to milliseconds.
func due(now time.Time, after time.Duration) time.Time {
	const step = time.Millisecond
	return now.Add(after + step - 1).UTC().Truncate(step)
}

// TimerID returns the id of a timer's message. epoch is that of the timer's number, see
// [Restores.Epoch]: it differs if the record of the group expired and the numbers began again.
func TimerID(epoch, number uint64) string {
	return "timer:" + strconv.FormatUint(epoch, 10) + ":" + strconv.FormatUint(number, 10)
}

// A TimerChange sets or cancels a timer of a group.
type TimerChange struct {
	Name string
	// Effect carries the message of a timer that is set; nil cancels the timer.
	Effect *Effect
}

// HasRoomFor returns an error if the record can't hold the timers after the changes. fired is the
// name of the timer whose message makes them, or empty.
func (g *Group) HasRoomFor(changes []TimerChange, fired string) error {
	if len(changes) == 0 {
		return nil
	}
	names := maps.Clone(g.Timers)
	if names == nil {
		names = map[string]Timer{}
	}
	delete(names, fired)
	for _, c := range changes {
		if delete(names, c.Name); c.Effect != nil {
			names[c.Name] = Timer{}
		}
	}
	switch bytes := size(names); {
	case len(names) > MaxTimers:
		return fmt.Errorf("%d timers in one group: at most %d", len(names), MaxTimers)
	case bytes > MaxTimerNames:
		return fmt.Errorf("the names of the timers of one group have %d bytes: at most %d together", bytes, MaxTimerNames)
	}
	return nil
}

// SetTimer adds a timer to the record, or replaces the one of that name.
func (g *Group) SetTimer(name string, t Timer) {
	if g.Timers == nil {
		g.Timers = map[string]Timer{}
	}
	g.Timers[name] = t
}

// DropTimer removes the timer of that name, if there is one.
func (g *Group) DropTimer(name string) {
	if delete(g.Timers, name); len(g.Timers) == 0 {
		g.Timers = nil
	}
}

// KeptForTimers returns the earliest expiry that the timers of the record allow; zero if there are
// none. Their messages may be redelivered and redriven for a retention after they are due.
func (g *Group) KeptForTimers() time.Time {
	var last time.Time
	for _, t := range g.Timers {
		last = latest(last, t.Due.Add(g.Retention))
	}
	return last
}

// The reasons why a handler can have no timers.
var (
	errTimerStateless = errors.New("a stateless handler has no timers: they are kept with the state of a group")
	errTimerPool      = errors.New("a stream with a pool has no timers")
)

// NoTimers returns why the handler of the stream can have no timers, or nil if it can.
func (s *Stream) NoTimers() error {
	switch {
	case s.Stateless:
		return errTimerStateless
	case s.Partitions > 0:
		return errTimerPool
	}
	return nil
}
