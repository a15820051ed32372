package sessions

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/record"
)

// errLost is the error of every call without an answer.
var errLost = errors.New("no answer")

// A call is one call of an actor. Equal calls have equal keys.
type call struct {
	id        int32 // equal for equal keys; set when it is made first
	key, text string
	write     bool
	// choice says that the environment decides whether a try of an entry fails.
	choice bool
	apply  func(w *world) (*world, answer, error)
}

// An answer is the result of a call. Equal answers have equal keys.
type answer struct {
	key   string
	value any
	err   error
}

func lost() answer { return answer{key: "lost", err: errLost} }

// A port makes the calls of an actor.
type port interface{ do(c *call) answer }

// A host is the port of an actor that is run again with its answers so far.
type host struct {
	script []answer
	at     int
	asked  *call
}

func (h *host) do(c *call) answer {
	if h.at == len(h.script) {
		h.asked = c
		runtime.Goexit()
	}
	h.at++
	return h.script[h.at-1]
}

// An actor is a consumer or an operator.
type actor struct {
	*explorer
	port

	name     string // of the session
	sessions *session.Sessions
}

func (x *explorer) actor(p port, name string) *actor {
	a := &actor{explorer: x, port: p, name: name}
	cfg := x.config()
	cfg.Queues = a
	a.sessions = session.New(a, cfg)
	return a
}

// Load implements [session.Store]. The logs do not change, so that loading their records is no
// step.
func (a *actor) Load(_ context.Context, keys []record.GroupKey, _ []record.TokenKey) ([]record.Group, []record.Token, error) {
	out := make([]record.Group, len(keys))
	for i, key := range keys {
		if g, ok := a.logs[key]; ok {
			out[i] = g
			continue
		}
		got := a.do(&call{key: "load " + key.Path(), text: "load " + show(key), apply: func(w *world) (*world, answer, error) {
			g := w.group(key)
			return w, answer{key: fmt.Sprintf("%d %d %x", g.Version, g.Last, g.State), value: g}, nil
		}})
		if got.err != nil {
			return nil, nil, got.err
		}
		out[i] = got.value.(record.Group)
	}
	return out, nil, nil
}

// Commit implements [session.Store].
func (a *actor) Commit(_ context.Context, c record.Commit) error {
	text := "write " + show(c.Next.Key)
	return a.do(&call{
		key: fmt.Sprintf("write %s %d %d %x", c.Next.Key.Path(), c.Loaded.Version, c.Next.Last, c.Next.State), text: text, write: true,
		apply: func(w *world) (*world, answer, error) { return w.commit(c) },
	}).err
}

// Trigger implements [record.Queues]. Nothing is published here, so it is no step.
func (a *actor) Trigger(context.Context, []record.GroupKey, time.Duration) error { return nil }

// Return implements [record.Queues].
func (a *actor) Return(context.Context, []record.Message) error { return errors.ErrUnsupported }

// DeadLetter implements [record.Queues].
func (a *actor) DeadLetter(_ context.Context, refused []record.Refused) error {
	var entries []string
	for i := range refused {
		entries = append(entries, letterOf(refused[i].Message.ID))
	}
	return a.do(&call{key: fmt.Sprint("letter ", entries), text: fmt.Sprint("dead-letter ", entries), write: true, apply: func(w *world) (*world, answer, error) {
		next := w.with(func(n *world) {
			for _, e := range entries {
				if !slices.Contains(n.letters, e) {
					n.letters = append(n.letters, e)
				}
			}
			slices.Sort(n.letters)
		})
		return next, answer{key: "done"}, nil
	}}).err
}

// letterOf returns the entry that the id of a dead letter names, as partition/number.
func letterOf(id string) string {
	parts := strings.Split(id, "/")
	o, err := log.ParseOffset(parts[2])
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%s/%d", parts[1], o.Number)
}

// ReadLog implements [record.LogReader].
func (a *actor) ReadLog(_ context.Context, r record.LogRange) ([]record.Chunk, error) {
	return []record.Chunk{a.chunks[r.Group]}, nil
}

// consume is a consumer: it processes entries until there is none, or until it loses the session.
// It reports whether it has seen the end.
func (a *actor) consume() (ended bool) {
	for {
		o, err := a.sessions.Open(context.Background(), id(a.name), session.Opening{Holder: "consumer", Take: session.TakeNow})
		if errors.Is(err, errLost) {
			continue
		}
		if err != nil {
			return errors.Is(err, session.ErrEnded)
		}
		ended, again := a.work(o)
		if !again {
			return ended
		}
	}
}

// work processes entries. It reports whether the consumer has to open the session again, because
// the result of a transaction is unknown.
func (a *actor) work(o session.Opened) (ended, again bool) {
	at := o.Cursor
	if a.Database {
		number, err := a.raise(o)
		if err != nil {
			return false, errors.Is(err, errLost)
		}
		if err := a.report(o.Fence, at, number); err != nil {
			return false, false
		}
		at = number
	}
	for {
		page, err := a.sessions.Read(context.Background(), id(a.name), session.Reading{Fence: o.Fence, After: &at, Limit: 1})
		if errors.Is(err, errLost) {
			continue
		}
		if err != nil || len(page.Entries) == 0 {
			return page.End, false
		}
		e := page.Entries[0]
		work := fmt.Sprintf("%s/%d ", e.Group.Group, e.Offset.Number)
		dead := e.Dead
		if !e.End && !dead && a.fails() {
			if dead = a.fail(o.Fence, e.Number); !dead {
				return false, false
			}
		}
		if e.End || dead {
			work = ""
		}
		if a.Database {
			if err := a.transact(o, at, e.Number, work); err != nil {
				return false, errors.Is(err, errLost)
			}
			work = ""
		}
		c := session.Commit{Fence: o.Fence, From: at, To: e.Number}
		if work != "" {
			o.State = append(o.State, work...)
			c.State, c.Effects = o.State, []record.Effect{{To: []string{"out"}, Body: []byte(work)}}
		}
		if err := a.commit(c); err != nil {
			return false, false
		}
		if at = e.Number; e.End {
			return true, false
		}
	}
}

// commit repeats a commit until it has an answer.
func (a *actor) commit(c session.Commit) error {
	for {
		if err := a.sessions.Commit(context.Background(), id(a.name), c); !errors.Is(err, errLost) {
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

func (a *actor) fails() bool {
	return a.DeadLetters && a.do(&call{key: "try", text: "try", choice: true}).key == "fails"
}

// fail reports a failed try, until it has an answer. It reports whether the entry is a dead letter.
func (a *actor) fail(fence, at uint64) bool {
	for {
		out, err := a.sessions.Fail(context.Background(), id(a.name), session.Failure{Fence: fence, At: at, Try: 1})
		if !errors.Is(err, errLost) {
			return err == nil && out.Dead
		}
	}
}

// retire is an operator.
func (a *actor) retire() {
	for {
		o, err := a.sessions.Open(context.Background(), id(a.name), session.Opening{Holder: "operator", Take: session.TakeNow})
		if errors.Is(err, errLost) {
			continue
		}
		if err != nil {
			return
		}
		r := session.Retirement{Fence: o.Fence}
		if a.Database {
			number, err := a.raise(o)
			if errors.Is(err, errLost) {
				continue
			}
			if err != nil {
				return
			}
			r.Cursor = &number
		}
		for {
			if err := a.sessions.Retire(context.Background(), id(a.name), r); !errors.Is(err, errLost) {
				return
			}
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
		key: fmt.Sprint("raise ", a.name, " ", o.Life, " ", o.Fence), text: "raise the fence of " + a.name, write: true,
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
		key: fmt.Sprint("transact ", a.name, " ", o.Life, " ", o.Fence, " ", from, " ", to, " ", work), text: "transact " + a.name + " " + work, write: true,
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
