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
	// database says that it is a transaction of the database.
	database bool
	// choice says that the environment decides whether a try of an entry fails. report says that the
	// actor reports a success, which is no step.
	choice, report bool
	// idle says that the actor is between two calls of the real code.
	idle  bool
	apply func(w *world) (*world, answer, error)
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

// An actor is a consumer, an operator or a sweep.
type actor struct {
	*explorer
	port

	name     string // of the session
	sessions *session.Sessions
	// fence is that under which the actor acts, 0 while it opens a session.
	fence uint64
	// forces says that the actor takes sessions at any time.
	forces bool
	clock  time.Time
}

func (x *explorer) actor(p port, name string) *actor {
	a := &actor{explorer: x, port: p, name: name, forces: !x.Free, clock: start()}
	cfg := x.config()
	cfg.Queues, cfg.Now, cfg.Enqueue = a, func() time.Time { return a.clock }, a.enqueue
	a.sessions = session.New(a, cfg)
	return a
}

// ready is called before each call of the real code. If time passes, it reads the clock, which is a
// step: time passes only there, because no call lasts that long.
func (a *actor) ready() *session.Sessions {
	if a.Ages > 0 {
		a.clock = a.do(&call{key: "clock", text: "reads the clock", idle: true, apply: func(w *world) (*world, answer, error) {
			return w, answer{key: fmt.Sprint("age ", w.ages), value: w.time()}, nil
		}}).value.(time.Time)
	}
	return a.sessions
}

// Load implements [session.Store].
func (a *actor) Load(_ context.Context, keys []record.GroupKey, _ []record.TokenKey) ([]record.Group, []record.Token, error) {
	out := make([]record.Group, len(keys))
	for i, key := range keys {
		var err error
		if log := a.logIndex(key); log >= 0 {
			out[i], err = a.loadLog(log)
		} else {
			out[i], err = a.load(key)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return out, nil, nil
}

func (a *actor) load(key record.GroupKey) (record.Group, error) {
	got := a.do(&call{key: "load " + key.Path(), text: "load " + show(key), apply: func(w *world) (*world, answer, error) {
		g := w.group(key)
		return w, answer{key: fmt.Sprintf("%d %d %d %x", g.Incarnation, g.Version, g.Last, g.State), value: g}, nil
	}})
	if got.err != nil {
		return record.Group{}, got.err
	}
	return got.value.(record.Group), nil
}

// Commit implements [session.Store].
func (a *actor) Commit(_ context.Context, c record.Commit) error {
	fence := a.fence
	return a.do(&call{
		key:  fmt.Sprintf("write %s %d %d %d %x %d", c.Next.Key.Path(), c.Loaded.Incarnation, c.Loaded.Version, c.Next.Last, c.Next.State, fence),
		text: "write " + show(c.Next.Key), write: true,
		apply: func(w *world) (*world, answer, error) { return w.commit(c, fence) },
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

func (*actor) Delay(context.Context, []record.Delayed) error { return nil }

// letterOf returns the entry that the id of a dead letter names, as partition/number.
func letterOf(id string) string {
	parts := strings.Split(id, "/")
	o, err := log.ParseOffset(parts[2])
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%s/%d", parts[1], o.Number)
}
