package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/handler"
	"github.com/effectively-once/once/internal/record"
)

// checkTried checks what a commit checks of an answer: its sizes, its timers and, if the stream is
// in the configuration, its destinations and its log.
func checkTried(c *config.Config, stream string, o *trying, answer *handler.Answer) error {
	s, configured := c.Streams[stream]
	settings := s.Settings(stream)
	for i, r := range answer.Results {
		path := fmt.Sprintf("messages[%d]", i)
		if size := r.Reply.Size(); size > record.MaxReply {
			return fmt.Errorf("%s.reply of %d bytes, headers included: at most %d", path, size, record.MaxReply)
		}
		if err := checkTriedTimers(&settings, configured, o, r.Effects); err != nil {
			return fmt.Errorf("%s.effects: %w", path, err)
		}
		if !configured {
			continue
		}
		if len(r.Append) > 0 && settings.LogRetention == 0 {
			return fmt.Errorf("%s.append is for the log of the group, and the stream has none: configure log.retain", path)
		}
		for j, e := range r.Effects {
			if err := checkDestination(c, s, &e); err != nil {
				return fmt.Errorf("%s.effects[%d]%w", path, j, err)
			}
		}
	}
	return nil
}

// checkDestination checks where an effect of a configured stream goes. The error begins with the
// member.
func checkDestination(c *config.Config, s config.Stream, e *handler.Effect) error {
	if e.To == "" {
		return nil
	}
	if !slices.Contains(s.Destinations, e.To) {
		return fmt.Errorf(".to is %q, which is no destination of the stream; it has: %s", e.To, cmp.Or(strings.Join(s.Destinations, ", "), "none"))
	}
	d := c.Destinations[e.To]
	if to, ok := c.Streams[d.Stream]; e.After > 0 && ok && to.Settings(d.Stream).Admission == record.BySequence {
		return fmt.Errorf(".after delays an effect to %q, a stream with admission: sequence, which takes none: later numbers would wait for it", e.To)
	}
	return nil
}

// checkTriedTimers checks the timers of a result for a group that has no others.
func checkTriedTimers(s *record.Stream, configured bool, o *trying, effects []handler.Effect) error {
	var changes []record.TimerChange
	for _, e := range effects {
		name := cmp.Or(e.Timer, e.Cancel)
		if name == "" {
			continue
		}
		change := record.TimerChange{Name: name}
		if e.Timer != "" {
			change.Effect = &record.Effect{Body: e.Body}
		}
		changes = append(changes, change)
		if !configured {
			continue
		}
		if err := s.CheckBody(&record.Message{Body: e.Body}); err != nil {
			return fmt.Errorf("set timer %q: %w", name, err)
		}
	}
	if err := (&record.Group{}).HasRoomFor(changes, o.timer); err != nil {
		return fmt.Errorf("set timer: %w", err)
	}
	return nil
}
