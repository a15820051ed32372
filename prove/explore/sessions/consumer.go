package sessions

import (
	"context"
	"errors"
	"fmt"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/record"
)

// open takes the session, and acts under its fence from then on. All holders have one name, as the
// consumers and operators of one machine do.
func (a *actor) open() (session.Opened, error) {
	take := session.TakeFree
	if a.forces {
		take = session.TakeNow
	}
	a.fence = 0
	o, err := a.ready().Open(context.Background(), a.id(a.name), session.Opening{Holder: "host", Take: take})
	a.fence = o.Fence
	return o, err
}

// consume is a consumer: it processes entries until there is none, or until it loses the session.
// It reports whether it has seen the end, and returns an error if it can't go on without a decision
// of an operator.
func (a *actor) consume() (ended bool, stopped error) {
	for {
		o, err := a.open()
		if errors.Is(err, errLost) {
			continue
		}
		if err != nil {
			return errors.Is(err, session.ErrEnded), nil
		}
		ended, err = a.work(o)
		if errors.Is(err, errLost) { // the result of a transaction is unknown
			continue
		}
		if !a.forces {
			a.release(o.Fence)
		}
		if undecided(err) {
			return false, err
		}
		return ended, nil
	}
}

// undecided reports whether a consumer stops because entries can't be read, or because its number
// is not one of its session.
func undecided(err error) bool {
	_, expired := errors.AsType[*session.ExpiredError](err)
	_, ahead := errors.AsType[*session.AheadError](err)
	return expired || ahead
}

// work processes entries. After errLost the consumer has to open the session again.
func (a *actor) work(o session.Opened) (ended bool, err error) {
	at := o.Cursor
	if a.Database {
		number, err := a.raise(o)
		if err != nil {
			return false, err
		}
		if err := a.report(o.Fence, at, number); err != nil {
			return false, err
		}
		at = number
	}
	for {
		page, err := a.ready().Read(context.Background(), a.id(a.name), session.Reading{Fence: o.Fence, After: &at, Limit: 1})
		if errors.Is(err, errLost) {
			continue
		}
		if err != nil || len(page.Entries) == 0 {
			return page.End, err
		}
		e := page.Entries[0]
		end, again, err := a.process(&o, at, &e)
		if err != nil || again {
			return end, err
		}
		if at = e.Number; end {
			return true, nil
		}
	}
}

// process processes an entry, or passes it if it is a dead letter. It reports whether the entry is
// the end, and whether the consumer has to stop.
func (a *actor) process(o *session.Opened, at uint64, e *session.Entry) (end, stop bool, err error) {
	end = e.End || a.ends(e)
	dead := e.Dead
	if !end && !dead && a.fails() {
		if dead = a.fail(o.Fence, e.Number); !dead {
			return false, true, nil
		}
	}
	work := a.entryName(a.name, o.Life, e.Group, e.Offset) + " "
	if end || dead {
		work = ""
	}
	if a.Database {
		if err := a.transact(*o, at, e.Number, work); err != nil {
			return false, true, err
		}
		work = ""
	}
	c := session.Commit{Fence: o.Fence, From: at, To: e.Number}
	if work != "" {
		o.State = append(o.State, work...)
		c.State = o.State
		if a.Ages == 0 { // nothing is published here, and a record with effects is not forgotten
			c.Effects = []record.Effect{{To: []string{"out"}, Body: []byte(work)}}
		}
	}
	return end, false, a.commit(c)
}

// ends reports whether an entry is the end of the log of a group.
func (a *actor) ends(e *session.Entry) bool {
	if !a.OfGroup {
		return false
	}
	x, err := e.Entry()
	return err == nil && x.Kind == record.EntryEnd
}

// commit repeats a commit until it has an answer.
func (a *actor) commit(c session.Commit) error {
	for {
		if err := a.ready().Commit(context.Background(), a.id(a.name), c); !errors.Is(err, errLost) {
			return err
		}
	}
}

// report commits the number of the database.
func (a *actor) report(fence, from, to uint64) error {
	if from == to {
		return nil
	}
	return a.commit(session.Commit{Fence: fence, From: from, To: to})
}

// release repeats a release until it has an answer.
func (a *actor) release(fence uint64) {
	for {
		if err := a.ready().Release(context.Background(), a.id(a.name), fence); !errors.Is(err, errLost) {
			return
		}
	}
}

func (a *actor) fails() bool {
	return a.DeadLetters && a.do(&call{key: "try", text: "try", choice: true}).key == "fails"
}

// fail reports a failed try, until it has an answer. It reports whether the entry is a dead letter.
func (a *actor) fail(fence, at uint64) bool {
	for {
		out, err := a.ready().Fail(context.Background(), a.id(a.name), session.Failure{Fence: fence, At: at, Try: 1})
		if !errors.Is(err, errLost) {
			return err == nil && out.Dead
		}
	}
}

// A row is a consumer's row in the database, for a name and a life.
type row struct {
	Name                string
	Life, Fence, Number uint64
}

var errFenced = errors.New("the database has a higher fence, or another number")

// raise raises the fence in the database and returns the number there, in one statement.
func (a *actor) raise(o session.Opened) (uint64, error) {
	got := a.do(&call{
		key: fmt.Sprint("raise ", a.name, " ", o.Life, " ", o.Fence), text: "raise the fence of " + a.name, write: true, database: true,
		apply: func(w *world) (*world, answer, error) {
			r := w.row(a.name, o.Life)
			if r.Fence > o.Fence {
				return w, answer{key: "fenced", err: errFenced}, nil
			}
			r.Fence = o.Fence
			return w.with(func(n *world) { n.put(r) }), answer{key: fmt.Sprint(r.Number), value: r.Number}, nil
		},
	})
	if got.err != nil {
		return 0, got.err
	}
	return got.value.(uint64), nil
}

// transact does the work in the database, and moves the number with it.
func (a *actor) transact(o session.Opened, from, to uint64, work string) error {
	return a.do(&call{
		key:  fmt.Sprint("transact ", a.name, " ", o.Life, " ", o.Fence, " ", from, " ", to, " ", work),
		text: "transact " + a.name + " " + work, write: true, database: true,
		apply: func(w *world) (*world, answer, error) {
			r := w.row(a.name, o.Life)
			if r.Fence != o.Fence || r.Number != from {
				return w, answer{key: "fenced", err: errFenced}, nil
			}
			r.Number = to
			var wrong error
			next := w.with(func(n *world) {
				n.put(r)
				wrong = n.process(work)
			})
			return next, answer{key: "done"}, wrong
		},
	}).err
}
