package sessions

import (
	"context"
	"fmt"
	"slices"
)

// A live port applies every call to a world.
type live struct{ w *world }

func (l *live) do(c *call) answer {
	if c.choice {
		return answer{key: "works"}
	}
	next, a, wrong := c.apply(l.w)
	if wrong != nil {
		panic(wrong)
	}
	l.w = next
	return a
}

// direct returns a store of a world. Writes to it do not change the world.
func (x *explorer) direct(w *world) *actor { return x.actor(&live{w}, "") }

// spare is the name of a session that no scenario has.
const spare = "spare"

// recovers returns an error if not all work can be finished from a world: all actors have died, and
// new consumers of the open sessions do the rest, without faults.
func (x *explorer) recovers(w *world) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("without further faults: %v", r)
		}
	}()
	l := &live{w}
	for _, name := range x.names {
		if err := x.actor(l, name).sessions.Finish(context.Background(), id(name)); err != nil {
			return fmt.Errorf("finish %s: %w", name, err)
		}
	}
	ended := map[string]bool{}
	for range len(x.names) + x.total + 2 {
		open := 0
		for _, name := range x.names {
			if d := l.w.describe(name); name == spare && open == 0 || d.Fence > 0 && !d.Closed {
				open++
				ended[name] = x.actor(l, name).consume()
			}
		}
	}
	if len(l.w.done)+len(l.w.dead) != x.total {
		return fmt.Errorf("the remaining entries can't be processed: only %s are, and %s are dead letters", l.w.done, l.w.dead)
	}
	if !x.Database && !slices.Equal(l.w.effects, l.w.done) {
		return fmt.Errorf("the effects are those of %s, and not of %s", l.w.effects, l.w.done)
	}
	for name, ok := range ended {
		if !ok {
			return fmt.Errorf("session %s never sees the end", name)
		}
	}
	return nil
}
