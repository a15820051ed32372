package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// stats is the part of the output of once show --json that these checks read.
type stats struct {
	Pending     int  `json:"pending"`
	Held        int  `json:"held"`
	Issued      int  `json:"issued"`
	Leased      int  `json:"leased"`
	Queued      int  `json:"queued"`
	Delayed     int  `json:"delayed"`
	NotDue      int  `json:"not_due"`
	DeadLetters int  `json:"dead_letters"`
	Idle        bool `json:"idle"`
}

func (s *server) stats() (stats, error) {
	var st stats
	return st, s.show(&st)
}

// show runs once show with --json and parses its output.
func (s *server) show(into any, args ...string) error {
	out, err := s.once(append([]string{"show", "--json"}, args...)...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("read %q: %w", out, err)
	}
	return nil
}

// letter is a dead letter.
type letter struct {
	Queue       string `json:"queue"`
	Reason      string `json:"reason"`
	Detail      string `json:"detail"`
	Stream      string `json:"stream"`
	ID          string `json:"id"`
	Group       string `json:"group"`
	Source      string `json:"source"`
	Epoch       uint64 `json:"epoch"`
	Sequence    uint64 `json:"sequence"`
	Destination string `json:"destination"`
}

// String returns reason, stream and identity.
func (l letter) String() string {
	id := l.ID
	if id == "" {
		id = fmt.Sprintf("%s/%d/%d", l.Source, l.Epoch, l.Sequence)
	}
	return l.Reason + " " + l.Stream + " " + id
}

func (s *server) deadLetters() (letters []letter, err error) {
	return letters, s.show(&letters, "--dead-letters", "--limit", "1000000")
}

// settle waits until no message is in flight, delayed messages included: one that is too far ahead
// of its predecessors is deferred again and again.
func (s *server) settle(t *testing.T, limit time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	var last stats
	err := poll(ctx, 100*time.Millisecond, func() (idle bool, err error) {
		last, err = s.stats()
		return last.Idle && last.NotDue == 0, err
	})
	if err != nil {
		t.Fatalf("not idle after %v: %v; %+v", limit, err, last)
	}
}

// judgeStores checks that no work is left: in the running server, after it has drained, and once
// more from its folder alone.
func (s *server) judgeStores(t *testing.T) {
	t.Helper()
	running, err := s.stats()
	must(t, err, s.stop())
	stopped, err := s.stats()
	must(t, err)
	for when, st := range map[string]stats{"running": running, "stopped": stopped} {
		if st != (stats{Idle: true}) {
			t.Errorf("%s: something is left over: %+v", when, st)
		}
	}
}
