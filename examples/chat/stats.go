package main

import (
	"os"
	"sync"
	"time"

	"github.com/effectively-once/once/examples/chat/room"
)

// drawn is how many lines a diagram shows.
const drawn = 40

// kept is how many lines the stats remember for the diagram, and how many written lines may be on
// their way to the screens.
const kept = 10_000

// stats measure how long lines take to the screens, and how many wait. They keep the last lines and
// the last measurements only, so a program that runs for days does not grow.
type stats struct {
	mu      sync.Mutex
	written map[string]time.Time // when a person wrote a text, by person and text
	order   []string             // the keys of written, the oldest first
	lines   []*room.Trace        // the last ones that were shown
	byID    map[string]*room.Trace
	own     room.Sample[time.Duration] // to the screen of the own region
	others  room.Sample[time.Duration]
	waiting room.Sample[int] // lines in an outbox, when one was added
	held    room.Sample[int] // messages that a region holds, sampled
	pending room.Sample[int] // lines that a region keeps for the others, sampled
}

func newStats() *stats {
	return &stats{written: map[string]time.Time{}, byID: map[string]*room.Trace{}}
}

func (s *stats) wrote(by, text string, waiting int, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := by + "\x00" + text
	if _, again := s.written[key]; !again {
		s.order = append(s.order, key)
	}
	s.written[key] = now
	if len(s.order) > kept {
		delete(s.written, s.order[0])
		s.order = s.order[1:]
	}
	s.waiting.Add(waiting)
}

// buffered adds a sample of the buffers of a region.
func (s *stats) buffered(held, pending int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held.Add(held)
	s.pending.Add(pending)
}

func (s *stats) shown(region string, h *room.Heard, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	written, ok := s.written[h.By+"\x00"+h.Text]
	if !ok {
		return // before this start, or long ago
	}
	t := s.byID[h.ID]
	if t == nil {
		t = &room.Trace{Line: h.Line, Written: written, Shown: map[string]time.Time{}}
		s.byID[h.ID] = t
		if s.lines = append(s.lines, t); len(s.lines) > kept {
			delete(s.byID, s.lines[0].ID)
			s.lines = s.lines[1:]
		}
	}
	if _, twice := t.Shown[region]; !twice {
		t.Shown[region] = now
	}
	if h.Region == region {
		s.own.Add(now.Sub(written))
	} else {
		s.others.Add(now.Sub(written))
	}
}

func (s *stats) report() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return room.Head() +
		s.own.Percentiles().Row("from writing to the own screen") +
		s.others.Percentiles().Row("from writing to the other screens") +
		s.waiting.Percentiles().Row("lines in an outbox") +
		s.held.Percentiles().Row("messages held in a region") +
		s.pending.Percentiles().Row("lines pending for other regions")
}

// draw writes a diagram of the last lines that every region shows.
func (s *stats) draw(file string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var traces []room.Trace
	for i := len(s.lines) - 1; i >= 0 && len(traces) < drawn; i-- {
		if t := s.lines[i]; len(t.Shown) == len(names) {
			traces = append(traces, *t)
		}
	}
	f, err := os.Create(file) //nolint:gosec // the user names the file
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := room.Diagram(f, names, traces); err != nil {
		return err
	}
	return f.Close()
}
