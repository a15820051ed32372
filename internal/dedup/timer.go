package dedup

import (
	"fmt"

	"github.com/effectively-once/once/internal/record"
)

// admitTimer decides whether the message of a timer is new: the record of the group has a timer of
// its name and number, in the incarnation that set it. Otherwise the timer has fired, or was
// cancelled or replaced.
func (pl *plan) admitTimer(it *item) (fate record.Outcome, fresh bool) {
	timer, ok := pl.next.Timers[it.Timer]
	if ok && timer.Number == it.TimerNumber {
		epoch, err := pl.cfg.Restores.Epoch(pl.next.Incarnation, timer.Number)
		if err != nil {
			return record.Outcome{Err: fmt.Errorf("admit timer: %w", err)}, false
		}
		if it.ID == record.TimerID(epoch, timer.Number) {
			return record.Outcome{}, true
		}
	}
	// if it has fired, its worker may have crashed before it asked for publishing
	pl.part.trigger = true
	return record.Outcome{Kind: record.Duplicate}, false
}

// timeable returns an error if the record can't hold the timers of an attempt, or the stream can't
// take their messages.
func (pl *plan) timeable(it *item, a *record.Attempt) error {
	if err := pl.next.HasRoomFor(a.Timers(), it.Timer); err != nil {
		return fmt.Errorf("set timer: %w", err)
	}
	for _, c := range a.Timers() {
		if c.Effect == nil {
			continue
		}
		if err := pl.part.stream.CheckBody(&record.Message{Body: c.Effect.Body}); err != nil {
			return fmt.Errorf("set timer %q: %w", c.Name, err)
		}
	}
	return nil
}

// adoptTimers removes the timer whose message was processed, and those that the attempt cancels or
// replaces.
func (pl *plan) adoptTimers(it *item, a *record.Attempt) {
	if it.Timer != "" {
		pl.next.DropTimer(it.Timer)
	}
	for _, c := range a.Timers() {
		pl.next.DropTimer(c.Name)
	}
}

// setTimers adds the timers that a numbered entry sets.
func (pl *plan) setTimers(entry *record.Pending) {
	for i := range entry.Effects {
		if f := &entry.Effects[i]; f.Timer != "" {
			pl.next.SetTimer(f.Timer, record.Timer{Number: entry.Number + uint64(i), Due: f.NotBefore})
		}
	}
}
