package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/effectively-once/once/examples/chat/room"
)

// drawn is how many lines a diagram shows.
const drawn = 40

// stats measure how long lines take to the screens, and how many wait.
type stats struct {
	mu      sync.Mutex
	written map[string]time.Time // when a person wrote a text, by person and text
	lines   []*room.Trace        // the last ones
	byID    map[string]*room.Trace
	own     []time.Duration // to the screen of the own region
	others  []time.Duration
	waiting []int // lines in an outbox, when one was added
}

func newStats() *stats {
	return &stats{written: map[string]time.Time{}, byID: map[string]*room.Trace{}}
}

func (s *stats) wrote(by, text string, waiting int, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written[by+"\x00"+text] = now
	s.waiting = append(s.waiting, waiting)
}

func (s *stats) shown(region string, h *room.Heard, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	written, ok := s.written[h.By+"\x00"+h.Text]
	if !ok {
		return // before this start
	}
	t := s.byID[h.ID]
	if t == nil {
		t = &room.Trace{Line: h.Line, Written: written, Shown: map[string]time.Time{}}
		s.byID[h.ID] = t
		s.lines = append(s.lines, t)
	}
	if _, twice := t.Shown[region]; !twice {
		t.Shown[region] = now
	}
	if h.Region == region {
		s.own = append(s.own, now.Sub(written))
	} else {
		s.others = append(s.others, now.Sub(written))
	}
}

func (s *stats) report() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%-36s %8s %10s %10s %10s\n", "", "count", "median", "99 %", "most")
	for _, x := range []struct {
		what string
		list []time.Duration
	}{{"from writing to the own screen", s.own}, {"from writing to the other screens", s.others}} {
		fmt.Fprintf(&b, "%-36s %8d %10s %10s %10s\n", x.what, len(x.list), percentile(x.list, 50).Round(time.Millisecond), percentile(x.list, 99).Round(time.Millisecond), percentile(x.list, 100).Round(time.Millisecond))
	}
	fmt.Fprintf(&b, "%-36s %8d %10d %10d %10d\n", "lines in an outbox", len(s.waiting), percentile(s.waiting, 50), percentile(s.waiting, 99), percentile(s.waiting, 100))
	return b.String()
}

// percentile returns the smallest value that p percent of the list do not exceed.
func percentile[T int | time.Duration](list []T, p int) T {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
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
