package room

import (
	"context"
	"fmt"
	"time"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/clock"
)

// A Region is one of the systems that share the room. Its name is that of its system, and of the
// destination by which the others reach it.
type Region struct {
	Name string
	// Peers are the other regions.
	Peers []string
	// Now is the wall clock of this region.
	Now func() time.Time

	alone bool // a mistake: answers wait for nothing in the other regions
}

// State is the state of the room's group in one region: the hybrid time of the last line.
type State struct {
	Last clock.Hybrid `json:"last"`
}

// Handle appends one message to the log: a line from another region as it is, and the words of a
// person as a line that is stamped and sent to the other regions. It is a [once.Handler].
func (r Region) Handle(_ context.Context, a *once.Attempt[State], m once.Message) error {
	if len(m.Via) > 0 {
		return r.receive(a, &m)
	}
	return r.write(a, &m)
}

// way returns the source of the lines from one region at another one. See docs/configuration.md.
func way(from, to string) string { return from + "/" + to + "/" + Stream + "/" + Group }

func (r Region) receive(a *once.Attempt[State], m *once.Message) error {
	var l Line
	if err := m.Decode(&l); err != nil {
		return once.Reject("not a line of a room", err)
	}
	a.State.Last = max(a.State.Last, l.At)
	a.Append(once.Bytes(m.ContentType, m.Body))
	return nil
}

func (r Region) write(a *once.Attempt[State], m *once.Message) error {
	var s said
	if err := m.Decode(&s); err != nil {
		return once.Reject("not the words of a person", err)
	}
	at, err := a.State.Last.Tick(r.Now())
	if err != nil {
		return fmt.Errorf("stamp line: %w", err)
	}
	a.State.Last = at
	line := once.JSON(Line{ID: m.ID, By: m.Source, Epoch: m.Epoch, Number: m.Sequence, Region: r.Name, At: at, Answers: s.Answers, Text: s.Text})
	a.Append(line)
	for _, peer := range r.Peers {
		a.Send(peer, line.WithDependsOn(r.depends(m.DependsOn, peer)))
	}
	return nil
}

// depends returns the numbers on which a line depends in another region, from those in this one. A
// region that wrote a line has it already.
func (r Region) depends(here map[string]uint64, peer string) map[string]uint64 {
	there := map[string]uint64{}
	for _, from := range r.Peers {
		if n := here[way(from, r.Name)]; n > 0 && from != peer && !r.alone {
			there[way(from, peer)] = n
		}
	}
	return there
}
