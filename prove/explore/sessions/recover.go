package sessions

import (
	"context"
	"errors"
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

// A recovery finishes all work from a world: all actors have died, and new consumers of the open
// sessions do the rest, without faults.
type recovery struct {
	*live
	x     *explorer
	ended map[string]bool
	// excused says that an operator had to decide where a session continues, so that entries may be
	// missing.
	excused bool
}

// recovers returns an error if not all work can be finished from a world.
func (x *explorer) recovers(w *world) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("without further faults: %v", r)
		}
	}()
	r := &recovery{live: &live{w}, x: x, ended: map[string]bool{}}
	if err := r.deliver(); err != nil {
		return err
	}
	for _, name := range x.names {
		if err := x.actor(r, name).sessions.Finish(context.Background(), x.id(name)); err != nil {
			return fmt.Errorf("finish %s: %w", name, err)
		}
	}
	for range len(x.names) + x.total + 2 {
		open := 0
		for _, name := range x.names {
			if d := r.w.describe(name); name == spare && open == 0 || d.Fence > 0 && !d.Closed {
				open++
				r.consume(name)
			}
		}
		if err := r.deliver(); err != nil {
			return err
		}
	}
	return r.complete()
}

// deliver ends the stream, and then lets everything arrive that is on the queues.
func (r *recovery) deliver() error {
	if !r.x.Queued {
		return nil
	}
	if !r.x.OfGroup {
		if err := r.end(); err != nil {
			return err
		}
	}
	for i := range r.w.logs {
		for l, _, ok := r.x.appended(i, r.w.logs[i]); ok; l, _, ok = r.x.appended(i, l) {
			r.w = r.w.with(func(n *world) { n.logs[i] = l })
		}
		if !r.w.logs[i].Ended {
			return fmt.Errorf("the stream is closed, and the end of log %d is never sent", i)
		}
	}
	return nil
}

// end ends the stream, or lets a sweep do the rest.
func (r *recovery) end() error {
	sessions := r.x.actor(r, "").sessions
	if r.w.group(endKey()).Version == 0 {
		return sessions.EndStream(context.Background(), stream)
	}
	if err := sessions.SweepEnds(context.Background()); err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	return nil
}

// consume lets a consumer of a session work. If that can't go on, an operator retires the session.
func (r *recovery) consume(name string) {
	a := r.x.actor(r, name)
	a.forces = true
	ended, stopped := a.consume()
	if r.ended[name] = ended; stopped == nil {
		return
	}
	r.excused = true
	if o, err := a.open(); err == nil && a.close(o, nil) == nil {
		delete(r.ended, name)
	}
}

// complete returns an error if entries are left, or if a session has not seen the end.
func (r *recovery) complete() error {
	w, x := r.w, r.x
	if x.OfGroup {
		return r.completeOfGroup()
	}
	given := w.given(w.done, w.dead)
	if x.Restored { // what is returned after the end is a dead letter, and has no mark
		given = w.given(w.done, w.dead, w.letters)
	}
	switch {
	case len(given) != x.total && !r.excused || x.Ahead > 0 && len(given) != x.total:
		return fmt.Errorf("the remaining entries can't be processed: only %s are, and %s are dead letters", w.done, w.dead)
	case r.excused && x.Ranges == 0 && x.Ahead == 0 && !x.Again:
		return errors.New("a consumer can't go on, although nothing is missing")
	case !x.Database && x.Ages == 0 && !slices.Equal(x.ofEntries(w.effects), w.done):
		return fmt.Errorf("the effects are those of %s, and not of %s", w.effects, w.done)
	case x.Enders > 0 && len(x.ofEntries(w.effects)) == len(w.effects):
		return errors.New("the end has no effect")
	}
	return r.allEnded()
}

func (r *recovery) allEnded() error {
	for name, ok := range r.ended {
		if !ok {
			return fmt.Errorf("session %s never sees the end", name)
		}
	}
	return nil
}

// ofEntries returns the effects of entries, without that of the end.
func (x *explorer) ofEntries(effects []string) (out []string) {
	for _, e := range effects {
		if e[0] != '{' {
			out = append(out, e)
		}
	}
	return out
}

// completeOfGroup returns an error if the last life of an open session lacks entries of the log.
func (r *recovery) completeOfGroup() error {
	for _, name := range r.x.names {
		d := r.w.describe(name)
		if d.Fence == 0 || d.Closed {
			continue
		}
		if n := r.w.processed(fmt.Sprintf("%s-%d:%d/", name, d.Life, r.w.logs[0].Incarnation)); n != r.x.total {
			return fmt.Errorf("session %s has processed %d entries of its log: %s", name, n, r.w.done)
		}
	}
	return r.allEnded()
}
