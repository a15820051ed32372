package storetest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/effectively-once/once/internal/history"
	"github.com/effectively-once/once/internal/record"
)

// heldNumber is the one held message of a group: whoever reads several reads them one after the other.
const heldNumber = 7

// A groupObject is one group. Attempts at it are counted, so that each leaves a mark of its own.
type groupObject struct {
	history.Object
	key      record.GroupKey
	attempts atomic.Uint64
}

// A view is what of a group record is looked at; zero where there is none.
type view struct {
	incarnation, version uint64
	state                uint64 // the attempt that wrote it
	pending, sent        bits   // by number, which is that of the attempt that added the entry
}

// bits is a set of the numbers 0 to 63.
type bits uint64

func (b bits) String() string {
	var out []int
	for n := range 64 {
		if b>>n&1 == 1 {
			out = append(out, n)
		}
	}
	return fmt.Sprint(out)
}

// A groupState is what the model knows of a group.
type groupState struct {
	view
	held uint64 // the attempt that held the message; 0 of none
}

type groupCall struct {
	do     string // load, held, clear or commit
	loaded view
	// next is what a commit writes, and of a clear the incarnation, and the entries to remove and to mark.
	next    view
	expires bool // at once
	hold    uint64
	unhold  bool
}

type groupAnswer struct {
	seen           view
	held           uint64
	conflict, lost bool
}

// stepGroup is the contract of a group record. See [record.Store].
func stepGroup(s groupState, in groupCall, out groupAnswer) (groupState, bool) {
	switch in.do {
	case "load":
		return s, out.seen == s.view
	case "held":
		return s, out.held == s.held
	case "clear":
		if s.version > 0 && s.incarnation == in.next.incarnation {
			s.pending &^= in.next.pending
			s.sent = (s.sent | in.next.sent) & s.pending
		}
		return s, true
	}
	holds := s.version == in.loaded.version && (s.version == 0 || s.incarnation == in.loaded.incarnation)
	if !holds || out.conflict {
		return s, out.lost || out.conflict != holds
	}
	next := groupState{view: in.next, held: s.held}
	next.pending &= s.pending | ^in.loaded.pending // what was loaded is kept as it is stored
	next.sent = s.sent & next.pending
	if in.expires {
		next.view = view{}
	}
	if in.hold > 0 || in.unhold {
		next.held = in.hold
	}
	return next, true
}

// viewOf reads a record.
func viewOf(g *record.Group) view {
	v := view{incarnation: g.Incarnation, version: g.Version}
	if g.Version > 0 {
		v.state, _ = strconv.ParseUint(string(g.State), 10, 64)
	}
	for _, p := range g.Pending {
		v.pending |= 1 << p.Number
		if len(p.Sent) > 0 {
			v.sent |= 1 << p.Number
		}
	}
	return v
}

// commit writes what follows the record as it was last seen, which may be long ago.
func (c *caller) commit() {
	i := c.rnd.IntN(historyKeys)
	o := c.round.groups[i]
	attempt := o.attempts.Add(1)
	if attempt > 63 {
		return
	}
	w := record.Commit{Loaded: c.groups[i], Next: c.groups[i], Attempt: fmt.Sprint(o.key, "/", attempt)}
	w.Next.Version++
	if w.Loaded.Version == 0 {
		w.Next.Incarnation = 1000 + attempt
	}
	w.Next.State = fmt.Append(nil, attempt)
	w.Next.Pending = slices.DeleteFunc(slices.Clone(w.Next.Pending), func(record.Pending) bool { return c.oneIn(6) })
	if c.oneIn(2) {
		w.Next.Pending = append(w.Next.Pending, record.Pending{Number: attempt, Identity: fmt.Sprint(attempt)})
	}
	in := groupCall{do: "commit", expires: c.oneIn(12)}
	if in.expires {
		w.Next.Expires = c.clock.In(-time.Minute)
	}
	switch c.rnd.IntN(6) {
	case 0:
		in.hold, w.Hold = attempt, []record.Held{heldBy(o.key, attempt)}
	case 1:
		in.unhold, w.Unhold = true, []record.HeldKey{keyOf(heldBy(o.key, 0))}
	}
	in.loaded, in.next = viewOf(&w.Loaded), viewOf(&w.Next)
	a := c.make(func(ctx context.Context) error { return c.Commit(ctx, w) })
	c.log.Add(o.Object, c.number, in, groupAnswer{conflict: a.conflict, lost: a.lost}, a.began, a.ended)
	if !a.lost && !a.conflict && !in.expires {
		c.groups[i] = w.Next // as who has committed may go on from it
	}
}

// heldBy is the held message, by the attempt that puts it.
func heldBy(key record.GroupKey, attempt uint64) record.Held {
	return record.Held{Message: record.Message{Stream: key.Stream, Group: key.Group, Source: "s", Epoch: 1, Sequence: heldNumber, Body: fmt.Append(nil, attempt)}}
}

// clear removes some of the entries that were last seen, and marks others.
func (c *caller) clear() {
	i := c.rnd.IntN(historyKeys)
	o, g := c.round.groups[i], c.groups[i]
	x := record.Clear{Group: o.key, Incarnation: g.Incarnation, Sent: map[uint64][]record.Sent{}}
	in := groupCall{do: "clear", next: view{incarnation: g.Incarnation}}
	for _, p := range g.Pending {
		switch c.rnd.IntN(3) {
		case 0:
			x.Numbers = append(x.Numbers, p.Number)
			in.next.pending |= 1 << p.Number
		case 1:
			x.Sent[p.Number] = []record.Sent{{Effect: 0, To: "ledger"}}
			in.next.sent |= 1 << p.Number
		}
	}
	a := c.make(func(ctx context.Context) error { return c.Clear(ctx, x) })
	for range c.repeated {
		c.log.Add(o.Object, c.number, in, groupAnswer{lost: a.lost}, a.began, a.ended)
	}
}

func (c *caller) held() {
	i := c.rnd.IntN(historyKeys)
	o := c.round.groups[i]
	var held []record.Held
	a := c.make(func(ctx context.Context) (err error) {
		held, err = c.Held(ctx, keyOf(heldBy(o.key, 0)), 1)
		return err
	})
	if a.lost {
		return
	}
	var out groupAnswer
	for _, h := range held {
		out.held, _ = strconv.ParseUint(string(h.Message.Body), 10, 64)
	}
	c.log.Add(o.Object, c.number, groupCall{do: "held"}, out, a.began, a.ended)
}
