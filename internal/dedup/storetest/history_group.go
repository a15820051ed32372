package storetest

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	pending              entries
	sent                 numberSet
}

// lastNumber is the last that an entry may have in a history. A number is that of the version that adds the entry, so that attempts fight for it, and it comes again in the next
// incarnation.
const lastNumber = 31

// entries tells for each number which attempt added the entry; 0 of none.
type entries [lastNumber + 1]uint8

func (e entries) String() string {
	var out []string
	for n, attempt := range e {
		if attempt > 0 {
			out = append(out, fmt.Sprint(n, " by ", attempt))
		}
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// numberSet is a set of numbers.
type numberSet uint32

func (b numberSet) has(n int) bool { return b>>n&1 == 1 }

func (b numberSet) String() string {
	return fmt.Sprint(slices.DeleteFunc(seq(lastNumber), func(n int) bool { return !b.has(n) }))
}

// seq gives 1 to n.
func seq(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i + 1
	}
	return out
}

// A groupState is what the model knows of a group.
type groupState struct {
	view
	held uint64 // the attempt that held the message; 0 of none
}

type groupCall struct {
	do     string // load, held, clear or commit
	loaded view
	// next is what a commit writes.
	next    view
	expires bool // at once
	hold    uint64
	unhold  bool
	// remove and mark are what a clear of that incarnation does.
	incarnation  uint64
	remove, mark numberSet
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
		if s.version > 0 && s.incarnation == in.incarnation {
			s.clear(in.remove, in.mark)
		}
		return s, true
	}
	holds := s.version == in.loaded.version && (s.version == 0 || s.incarnation == in.loaded.incarnation)
	if !holds || out.conflict {
		return s, out.lost || out.conflict != holds
	}
	next := groupState{view: in.next, held: s.held}
	next.sent = s.sent
	for n := range next.pending { // what was loaded is kept as it is stored
		if in.loaded.pending[n] > 0 && next.pending[n] > 0 {
			next.pending[n] = s.pending[n]
		}
	}
	next.clear(0, 0)
	if in.expires {
		next.view = view{}
	}
	if in.hold > 0 || in.unhold {
		next.held = in.hold
	}
	return next, true
}

// clear removes and marks entries. What is not there has no mark.
func (v *view) clear(remove, mark numberSet) {
	v.sent |= mark
	for n := range v.pending {
		if remove.has(n) {
			v.pending[n] = 0
		}
		if v.pending[n] == 0 {
			v.sent &^= 1 << n
		}
	}
}

// viewOf reads a record.
func viewOf(g *record.Group) view {
	v := view{incarnation: g.Incarnation, version: g.Version}
	if g.Version > 0 {
		v.state, _ = strconv.ParseUint(string(g.State), 10, 64)
	}
	for _, p := range g.Pending {
		attempt, _ := strconv.ParseUint(p.Identity, 10, 8)
		v.pending[p.Number] = uint8(attempt)
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
	w := record.Commit{Loaded: c.groups[i], Next: c.groups[i], Attempt: rand.Text()} // a service may remember names for longer than a test
	w.Next.Version++
	if w.Loaded.Version == 0 {
		w.Next.Incarnation = 1000 + attempt
	}
	w.Next.State = fmt.Append(nil, attempt)
	w.Next.Pending = slices.DeleteFunc(slices.Clone(w.Next.Pending), func(record.Pending) bool { return c.oneIn(6) })
	if w.Next.Version <= lastNumber && c.oneIn(2) {
		w.Next.Pending = append(w.Next.Pending, record.Pending{Number: w.Next.Version, Identity: fmt.Sprint(attempt)})
	}
	in := groupCall{do: "commit", expires: !c.repeats() && c.oneIn(12)}
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
	in := groupCall{do: "clear", incarnation: g.Incarnation}
	for _, p := range g.Pending {
		switch c.rnd.IntN(3) {
		case 0:
			x.Numbers = append(x.Numbers, p.Number)
			in.remove |= 1 << p.Number
		case 1:
			x.Sent[p.Number] = []record.Sent{{Effect: 0, To: "ledger"}}
			in.mark |= 1 << p.Number
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
