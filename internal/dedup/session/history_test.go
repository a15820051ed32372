package session_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/history"
)

var long = flag.Bool("long", false, "make histories of a million calls of sessions, on DynamoDB a hundred thousand: give it -timeout 6h")

// The size of one round of histories: one pool, whose sessions several callers use concurrently.
const (
	historyCallers = 4
	historyCalls   = 14 // by each caller
	sharedNames    = 2
	historyNames   = sharedNames + 1 // the last one reads the rest at the end
	historyParts   = 2
	historyEntries = 10
	historyServers = 2
	minSucceeded   = 25 // percent of the calls
)

// Several callers open, read, commit, fail, release and retire the sessions of one pool, at several
// servers, and some writes fail, are late, or lose their answers. At the end one more session reads
// the rest. The results must be those of one order of the calls, in which each entry is processed
// in exactly one life of a session.
//
// No log ends, and no entry becomes a dead letter. The clock stands still.
func TestHistoriesOfSessionsAreLinearizable(t *testing.T) {
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		operations, abreast := 10_000, 1
		if w.slow {
			operations, abreast = 1_000, 4
		}
		switch {
		case *long:
			operations *= 100
		case testing.Short():
			operations /= 10
		}
		seed := rand.Uint64()
		var calls, succeeded atomic.Int64
		history.Play(w.T, abreast, operations, func(lane, n int) *history.Log {
			r := w.newRound(fmt.Sprintf("round-%d-%d", lane, n), rand.New(rand.NewPCG(seed, uint64(lane)<<32|uint64(n))))
			r.run()
			calls.Add(r.calls.Load())
			succeeded.Add(r.succeeded.Load())
			r.drain()
			return &r.log
		})
		w.Logf("%d calls, of which %d succeeded", calls.Load(), succeeded.Load())
		if succeeded.Load()*100 < calls.Load()*minSucceeded {
			w.Errorf("%d of %d calls succeeded: nothing is proved by the others", succeeded.Load(), calls.Load())
		}
	})
}

// A round is the history of one pool.
type round struct {
	*world
	history.Object
	log     history.Log
	stream  string
	store   *lossy
	servers []*session.Sessions
	rnd     *rand.Rand
	shared  [sharedNames]atomic.Pointer[holding]

	calls, succeeded atomic.Int64
}

func (w *world) newRound(name string, rnd *rand.Rand) *round {
	r := &round{world: w, Object: history.Object{Model: sessionModel(), Name: name}, stream: name, rnd: rnd}
	for i := range historyParts {
		var ids []string
		for id := i + 1; id <= historyEntries; id += historyParts {
			ids = append(ids, strconv.Itoa(id))
		}
		w.append(session.Partition(name, uint64(i)), ids...)
	}
	r.store = &lossy{Store: w.store, rnd: rand.New(rand.NewPCG(rnd.Uint64(), 0))}
	for range historyServers {
		r.servers = append(r.servers, r.server(r.store))
	}
	return r
}

func (r *round) server(store session.Store) *session.Sessions {
	return session.New(store, session.Config{
		Pools: map[string]session.Pool{r.stream: {Partitions: historyParts, Window: 3}},
		Now:   func() time.Time { return r.now },
		Pause: func(context.Context, int) error { runtime.Gosched(); return nil },
	})
}

func (r *round) run() {
	var all sync.WaitGroup
	for i := range historyCallers {
		c := &sessionCaller{round: r, server: r.servers[i%historyServers], number: i, rnd: rand.New(rand.NewPCG(r.rnd.Uint64(), 0))}
		all.Go(func() {
			for range historyCalls {
				c.call()
			}
		})
	}
	all.Wait()
}

// drain retires all sessions, reads the rest in another one, and notes that nothing is left.
func (r *round) drain() {
	r.store.arrive(r.Context(), len(r.store.late))
	c := &sessionCaller{round: r, server: r.server(r.world.store), number: historyCallers, rnd: r.rnd}
	for name := range sharedNames {
		c.open(name, session.TakeNow)
		c.retire(name)
	}
	last := historyNames - 1
	c.open(last, session.TakeFree)
	for range historyEntries { // at least one of them each time
		c.read(last, false)
		c.commit(last, c.names[last].cursor, c.names[last].last)
	}
	now := r.log.Now()
	r.log.Add(r.Object, c.number, sessionCall{do: "drained", entries: historyEntries}, sessionAnswer{}, now, r.log.Now())
}

// A sessionCaller makes one call after the other. It remembers what it knows of each session, and
// sometimes continues with what another one knows, as two connections of one consumer do.
type sessionCaller struct {
	*round
	server *session.Sessions
	number int
	rnd    *rand.Rand
	names  [historyNames]holding
}

// A holding is what a caller knows of a session that it has opened, and which others may have
// opened since.
type holding struct {
	fence, cursor uint64
	last          uint64 // the last number that was read
	from, to      uint64 // the last commit
	at, tries     uint64
	over          bool // the last answer was that another one holds the session, or that it is retired
}

func (c *sessionCaller) oneIn(n int) bool { return c.rnd.IntN(n) == 0 }

func (c *sessionCaller) call() {
	name := c.rnd.IntN(sharedNames)
	h := &c.names[name]
	if shared := c.shared[name].Load(); shared != nil && c.oneIn(6) {
		*h = *shared
	}
	if h.fence == 0 || h.over && !c.oneIn(4) {
		c.open(name, []session.Take{session.TakeFree, session.TakeMine, session.TakeNow}[c.rnd.IntN(3)])
	} else {
		c.use(name, h)
	}
	if known := *h; !h.over {
		c.shared[name].Store(&known)
	}
}

// use makes a call under the fence that the caller knows.
func (c *sessionCaller) use(name int, h *holding) {
	switch n := c.rnd.IntN(24); {
	case n < 2:
		c.open(name, session.TakeNow)
	case n < 11:
		c.read(name, c.oneIn(3))
	case n < 17:
		c.commit(name, h.cursor, h.cursor+c.rnd.Uint64N(h.last-min(h.last, h.cursor)+1))
	case n < 18:
		c.commit(name, h.from, h.to) // again
	case n < 20:
		c.fail(name)
	case n < 22:
		c.release(name)
	default:
		c.retire(name)
	}
}

func (c *sessionCaller) id(name int) session.ID {
	return session.ID{Stream: c.stream, Name: strconv.Itoa(name)}
}

// make makes a call, and adds it to the history.
func (c *sessionCaller) make(in sessionCall, do func(context.Context, session.ID) (sessionAnswer, error)) (out sessionAnswer) {
	c.calls.Add(1)
	began := c.log.Now()
	out, err := do(c.Context(), c.id(in.name))
	ended := c.log.Now()
	if err != nil {
		out = refused(err)
	}
	switch out.err {
	case "":
		c.succeeded.Add(1)
	case lost:
		if ended = history.Never; in.do == "read" {
			return out // it may have dealt entries, which the next read returns
		}
	}
	h := &c.names[in.name]
	h.over = out.err == fenced || out.err == retired
	c.log.Add(c.Object, c.number, in, out, began, ended)
	return out
}

// refused returns the answer that an error is.
func refused(err error) sessionAnswer {
	if e, ok := errors.AsType[*session.MovedError](err); ok {
		return sessionAnswer{err: moved, cursor: e.Cursor}
	}
	if _, ok := errors.AsType[*session.FencedError](err); ok {
		return sessionAnswer{err: fenced}
	}
	if _, ok := errors.AsType[*session.HeldError](err); ok {
		return sessionAnswer{err: heldBy}
	}
	if _, ok := errors.AsType[*record.InvalidError](err); ok {
		return sessionAnswer{err: invalid}
	}
	switch {
	case errors.Is(err, session.ErrRetired):
		return sessionAnswer{err: retired}
	case errors.Is(err, errBroken), errors.Is(err, record.ErrConflict):
		return sessionAnswer{err: lost}
	}
	return sessionAnswer{err: err.Error()} // which is never right
}

func (c *sessionCaller) open(name int, take session.Take) {
	h := &c.names[name]
	in := sessionCall{do: "open", name: name, take: take, holder: strconv.Itoa(c.number)}
	out := c.make(in, func(ctx context.Context, id session.ID) (sessionAnswer, error) {
		o, err := c.server.Open(ctx, id, session.Opening{Holder: in.holder, Take: take})
		return sessionAnswer{fence: o.Fence, life: o.Life, cursor: o.Cursor, at: o.At, tries: o.Tries}, err
	})
	if out.err == "" {
		*h = holding{fence: out.fence, cursor: out.cursor, last: out.cursor, from: out.cursor, to: out.cursor, at: out.at, tries: out.tries}
	}
}

// read reads after the cursor, or after the last entry that the caller has read.
func (c *sessionCaller) read(name int, on bool) {
	h := &c.names[name]
	r := session.Reading{Fence: h.fence, Limit: 1 + c.rnd.IntN(3)}
	in := sessionCall{do: "read", name: name, fence: h.fence, atCursor: !on, after: h.last}
	if on {
		r.After = &in.after
	}
	out := c.make(in, func(ctx context.Context, id session.ID) (sessionAnswer, error) {
		page, err := c.server.Read(ctx, id, r)
		out := sessionAnswer{cursor: page.Next - uint64(len(page.Entries))}
		for i, e := range page.Entries {
			if e.Number != out.cursor+uint64(i)+1 {
				err = fmt.Errorf("entry %d has the number %d", i, e.Number)
			}
			out.entries += c.letter(e)
		}
		return out, err
	})
	if out.err == "" {
		h.last = max(h.last, out.cursor+uint64(len(out.entries)))
	}
}

// letter returns an entry as a letter.
func (c *sessionCaller) letter(e session.Entry) string {
	var x struct{ ID string }
	if err := cbor.Unmarshal(e.AppendCBOR(nil, e.Offset.Incarnation, ""), &x); err != nil {
		c.Error(err)
	}
	n, err := strconv.Atoi(x.ID)
	if err != nil {
		c.Error(err)
	}
	return string(rune('a' + n - 1))
}

func (c *sessionCaller) commit(name int, from, to uint64) {
	h := &c.names[name]
	in := sessionCall{do: "commit", name: name, fence: h.fence, from: from, to: to}
	out := c.make(in, func(ctx context.Context, id session.ID) (sessionAnswer, error) {
		return sessionAnswer{}, c.server.Commit(ctx, id, session.Commit{Fence: in.fence, From: from, To: to})
	})
	switch h.from, h.to = from, to; out.err {
	case "":
		h.cursor = to
	case moved:
		h.cursor = out.cursor
	}
}

// fail reports a failed try of the entry after the cursor, once or twice: the next try, or one that
// was reported.
func (c *sessionCaller) fail(name int) {
	h := &c.names[name]
	if h.last <= h.cursor {
		return
	}
	if h.at != h.cursor+1 {
		h.at, h.tries = h.cursor+1, 0
	}
	in := sessionCall{do: "fail", name: name, fence: h.fence, at: h.at, try: 1 + c.rnd.Uint64N(h.tries+1)}
	for range 1 + c.rnd.IntN(2) {
		out := c.make(in, func(ctx context.Context, id session.ID) (sessionAnswer, error) {
			f, err := c.server.Fail(ctx, id, session.Failure{Fence: in.fence, At: in.at, Try: in.try})
			return sessionAnswer{tries: f.Tries}, err
		})
		if out.err == "" {
			h.tries = out.tries
		}
	}
}

func (c *sessionCaller) release(name int) {
	in := sessionCall{do: "release", name: name, fence: c.names[name].fence}
	c.make(in, func(ctx context.Context, id session.ID) (sessionAnswer, error) {
		return sessionAnswer{}, c.server.Release(ctx, id, in.fence)
	})
}

func (c *sessionCaller) retire(name int) {
	in := sessionCall{do: "retire", name: name, fence: c.names[name].fence}
	c.make(in, func(ctx context.Context, id session.ID) (sessionAnswer, error) {
		return sessionAnswer{}, c.server.Retire(ctx, id, session.Retirement{Fence: in.fence})
	})
}
