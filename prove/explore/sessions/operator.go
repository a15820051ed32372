package sessions

import (
	"context"
	"errors"
	"fmt"

	"github.com/effectively-once/once/internal/dedup/session"
)

// take opens a session for an operator, and returns the number of its consumer's store. It reports
// whether the operator has both.
func (a *actor) take() (o session.Opened, number uint64, ok bool) {
	a.forces = true
	for {
		o, err := a.open()
		if errors.Is(err, errLost) {
			continue
		}
		if err != nil || !a.Database {
			return o, o.Cursor, err == nil
		}
		number, err = a.raise(o)
		if !errors.Is(err, errLost) {
			return o, number, err == nil
		}
	}
}

// retire is an operator who retires a session.
func (a *actor) retire() {
	o, number, ok := a.take()
	if !ok {
		return
	}
	if err := a.close(o, &number); err == nil || errors.Is(err, session.ErrRetired) {
		a.told("is retired", func(w *world) bool {
			d := w.describe(a.name)
			return d.Life != o.Life || d.Returned
		})
	}
}

// skip is an operator who skips the next entry of a session, if one is dealt. The number of the
// consumer's store is left to the next consumer.
func (a *actor) skip() {
	o, number, ok := a.take()
	if !ok || number == o.Last || a.report(o.Fence, o.Cursor, number) != nil {
		return
	}
	if a.commit(session.Commit{Fence: o.Fence, From: number, To: number + 1, Skip: true}) == nil {
		a.told("has skipped an entry", func(w *world) bool {
			d := w.describe(a.name)
			return d.Life != o.Life || d.Dead.Contains(number+1)
		})
	}
}

// close repeats a retire until it has an answer.
func (a *actor) close(o session.Opened, number *uint64) error {
	for {
		err := a.ready().Retire(context.Background(), a.id(a.name), session.Retirement{Fence: o.Fence, Cursor: number})
		if !errors.Is(err, errLost) {
			return err
		}
	}
}

// end ends the stream.
func (a *actor) end() {
	for {
		err := a.ready().EndStream(context.Background(), stream)
		if err == nil {
			a.told("is ended", func(w *world) bool {
				for _, l := range w.logs {
					if !l.Sent && !l.Ended {
						return false
					}
				}
				return true
			})
		}
		if !errors.Is(err, errLost) {
			return
		}
	}
}

// sweep goes on with everything that others have left.
func (a *actor) sweep() {
	if a.Enders > 0 {
		_ = a.ready().SweepEnds(context.Background())
	}
	for _, name := range a.names {
		if name != spare {
			_ = a.ready().Sweep(context.Background(), a.sessionKey(name))
		}
	}
}

// told is a success that an actor reports. It has to be true.
func (a *actor) told(what string, is func(w *world) bool) {
	a.do(&call{key: "told " + a.name + " " + what, report: true, apply: func(w *world) (*world, answer, error) {
		if !is(w) {
			return w, answer{}, fmt.Errorf("an operator is told that it %s, and that is not so: %s", what, a.name)
		}
		return w, answer{key: "done"}, nil
	}})
}
