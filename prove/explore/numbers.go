package explore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// numbered checks a commit against the rules for numbers. held are the messages held before it.
func (w *world) numbered(was, is record.Group, held []record.Held, now time.Time) error {
	return errors.Join(w.patient(was, is, held, now), w.settledOnce(&is))
}

// patient returns an error if a number is skipped before its time, or while its message is held. A
// void message skips its number at any time.
func (w *world) patient(was, is record.Group, held []record.Held, now time.Time) error {
	for key, src := range is.Sources {
		old := was.Sources[key]
		for n := old.Next; old.Epoch == src.Epoch && n < src.Next; n++ {
			if !src.Skipped.Contains(n) || old.Skipped.Contains(n) {
				continue
			}
			void, waits := w.void(is.Key, key, src.Epoch, n), old.Held.Contains(n)
			early := len(old.Held) == 0 || now.Sub(old.GapSince) < time.Duration(w.scenario.Stream.After)
			switch {
			case waits && !(void && slices.ContainsFunc(held, func(h record.Held) bool {
				m := h.Message
				return m.Void && m.GroupKey() == is.Key && m.SourceKey() == key && m.Epoch == src.Epoch && m.Sequence == n
			})):
				return fmt.Errorf("number %d is skipped, though it is held", n)
			case early && !void:
				return fmt.Errorf("number %d is skipped before its time", n)
			}
		}
	}
	return nil
}

// void reports whether the scenario has a void message for a number.
func (w *world) void(group record.GroupKey, source string, epoch, n uint64) bool {
	for name, v := range w.scenario.Messages {
		m := w.scenario.message(name)
		if v.Void && m.GroupKey() == group && m.SourceKey() == source && m.Epoch == epoch && m.Sequence == n {
			return true
		}
	}
	return false
}

// settledOnce returns an error unless each number that a source of a group has passed is either
// applied once or skipped, and no void message is applied.
func (w *world) settledOnce(g *record.Group) error {
	type number struct {
		source   string
		epoch, n uint64
	}
	times := map[number]int{}
	for _, line := range lines(g.State) {
		m := w.scenario.message(nameIn(line))
		if m.Void {
			return fmt.Errorf("a void message is applied: %q", line)
		}
		times[number{m.SourceKey(), m.Epoch, m.Sequence}]++
	}
	for source, src := range g.Sources {
		if strings.HasPrefix(source, ender) { // an end runs no handler
			continue
		}
		for n := uint64(1); n < src.Next; n++ {
			applied, skipped := times[number{source, src.Epoch, n}], src.Skipped.Contains(n)
			if applied > 1 || (applied == 1) == skipped {
				return fmt.Errorf("number %d of %s is applied %d times, and skipped: %t", n, source, applied, skipped)
			}
		}
	}
	return nil
}

// passes reports whether the number of a message is passed in its group, and whether it was
// skipped.
func (s *state) passes(m *record.Message) (passed, skipped bool) {
	for _, g := range s.store.contents.Groups {
		if src, known := g.Sources[m.SourceKey()]; known && g.Key == m.GroupKey() && src.Epoch == m.Epoch {
			return m.Sequence < src.Next, src.Skipped.Contains(m.Sequence)
		}
	}
	return false, false
}
