package storetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/history"
)

// A tokenObject is one token. Its owners are numbered, so that each write has its own name.
type tokenObject struct {
	history.Object
	key    record.TokenKey
	owners atomic.Uint64
}

// A tokenState holds the fields that a token's conditions compare; zero if there is no token.
type tokenState struct {
	state record.TokenState
	owner string
	epoch uint64
}

type tokenCall struct {
	do        string // load, swap or mark
	old, next tokenState
	expires   bool // the token expires immediately
}

type tokenAnswer struct {
	seen           tokenState // by a load, or returned by a swap
	conflict, lost bool
}

// stepToken is the contract of a token. See [record.Store].
func stepToken(s tokenState, in tokenCall, out tokenAnswer) (tokenState, bool) {
	next := in.next
	if in.expires {
		next = tokenState{}
	}
	switch in.do {
	case "load":
		return s, out.seen == s
	case "mark":
		return next, true
	}
	switch holds := s == in.old; {
	case out.conflict:
		return s, !holds && s != in.next && out.seen == s
	case !out.lost && out.seen != in.next:
		return s, false
	case holds:
		return next, true
	default:
		return s, out.lost || s == in.next
	}
}

// stateOf returns the state of a token.
func stateOf(t *record.Token) tokenState {
	if t.State == record.Absent {
		return tokenState{}
	}
	return tokenState{t.State, t.Owner, t.Epoch}
}

// swap changes the token that the caller last saw, which may be stale.
func (c *caller) swap() {
	i := c.rnd.IntN(historyKeys)
	o := c.round.tokens[i]
	old, next := c.tokens[i], record.Token{Key: o.key, State: record.TokenState(c.rnd.IntN(4))}
	in := tokenCall{do: "swap"}
	if c.repeats() && next.State == record.Absent {
		next.State = record.Leased
	}
	if next.State != record.Absent {
		// the condition has to notice a difference in a single field
		next.Owner, next.Epoch = old.Owner, old.Epoch+uint64(c.rnd.IntN(2))
		if old.Owner == "" || c.oneIn(2) {
			next.Owner = fmt.Sprint(o.owners.Add(1))
		}
		if c.repeats() {
			next.Epoch = old.Epoch + 1
		}
		if in.expires = !c.repeats() && c.oneIn(12); in.expires {
			next.Expires = c.clock.In(-time.Minute)
		}
	}
	in.old, in.next = stateOf(&old), stateOf(&next)
	var got record.Token
	a := c.make(func(ctx context.Context) (err error) {
		got, err = c.SwapToken(ctx, old, next)
		return err
	})
	out := tokenAnswer{seen: stateOf(&got), conflict: a.conflict, lost: a.lost}
	c.log.Add(o.Object, c.number, in, out, a.began, a.ended)
	if !a.lost && !in.expires {
		c.tokens[i] = got
	}
}

// mark puts done tokens. Each counts as a call, because the contract promises nothing about all of
// them together.
func (c *caller) mark() {
	var done []record.Token
	for _, i := range c.some() {
		o := c.round.tokens[i]
		done = append(done, record.Token{Key: o.key, State: record.Done, Owner: fmt.Sprint(o.owners.Add(1))})
	}
	if len(done) == 0 {
		return
	}
	a := c.make(func(ctx context.Context) error { return c.MarkDone(ctx, done) })
	for i := range done {
		for _, o := range c.round.tokens {
			if o.key != done[i].Key {
				continue
			}
			// a client library may have repeated it, with another write in between
			for range c.repeated {
				c.log.Add(o.Object, c.number, tokenCall{do: "mark", next: stateOf(&done[i])}, tokenAnswer{lost: a.lost}, a.began, a.ended)
			}
		}
	}
}
