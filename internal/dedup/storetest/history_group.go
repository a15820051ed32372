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

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/history"
)

// heldNumber is the number of the one held message of a group. There is only one, because a read of
// several is not atomic.
const heldNumber = 7

// A groupObject is one group. Its attempts are numbered, so that each writes distinguishable
// values.
type groupObject struct {
	history.Object
	key      record.GroupKey
	attempts atomic.Uint64
}

// A view is the part of a group record that the model checks; zero if there is no record.
type view struct {
	incarnation, version uint64
	state                uint64 // the number of the attempt that wrote it
	pending              entries
	sent                 numberSet
	kept                 numberSet
	last                 uint64 // the last entry of the log
	ended                bool   // the last entry is the end
}

// lastNumber is the highest number of an entry in a history. An entry has the number of the version
// that adds it, so that attempts compete for it, and it is used again in the next incarnation.
const lastNumber = 31

// entries maps each number to the attempt that added the entry, or 0.
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

// seq returns 1 to n.
func seq(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i + 1
	}
	return out
}

// A groupState is the model's state of a group.
type groupState struct {
	view
	held uint64 // the attempt that held the message, or 0
	logs chunkList
}

type groupCall struct {
	do     string // load, held, read, clear or commit
	loaded view
	// next is the record that a commit writes.
	next    view
	expires bool // the record expires immediately
	hold    uint64
	unhold  bool
	appends chunkList
	// from is the range that a read reads.
	from record.LogRange
	// remove, keep and mark are the changes of a clear of that incarnation.
	incarnation        uint64
	remove, keep, mark numberSet
}

type groupAnswer struct {
	seen           view
	held           uint64
	chunks         chunkList
	conflict, lost bool
}

// stepGroup is the contract of a group record. See [record.Store].
func stepGroup(s groupState, in groupCall, out groupAnswer) (groupState, bool) {
	switch in.do {
	case "load":
		return s, out.seen == s.view
	case "held":
		return s, out.held == s.held
	case "read":
		return s, out.chunks == s.logs.of(in.from)
	case "clear":
		if s.version > 0 && s.incarnation == in.incarnation {
			s.clear(in.remove, in.keep, in.mark)
		}
		return s, true
	}
	holds := s.version == in.loaded.version && (s.version == 0 || s.incarnation == in.loaded.incarnation)
	holds = holds && (!s.ended || in.appends == "") // callers do not append to a record with the end
	if !holds || out.conflict {
		return s, out.lost || out.conflict != holds
	}
	next := groupState{view: in.next, held: s.held, logs: s.logs + in.appends}
	next.sent, next.kept = s.sent, s.kept
	for n := range next.pending { // loaded entries are kept as they are stored
		if in.loaded.pending[n] > 0 && next.pending[n] > 0 {
			next.pending[n] = s.pending[n]
		}
	}
	next.clear(0, 0, 0)
	if in.expires {
		next.view = view{}
	}
	if in.hold > 0 || in.unhold {
		next.held = in.hold
	}
	return next, true
}

// clear removes, keeps and marks entries. A missing entry gets no mark, and a kept one neither.
func (v *view) clear(remove, keep, mark numberSet) {
	v.kept |= keep
	v.sent |= mark
	for n := range v.pending {
		if remove.has(n) {
			v.pending[n] = 0
		}
		if v.pending[n] == 0 {
			v.kept &^= 1 << n
		}
		if v.pending[n] == 0 || v.kept.has(n) {
			v.sent &^= 1 << n
		}
	}
}

// viewOf returns the view of a record.
func viewOf(g *record.Group) view {
	v := view{incarnation: g.Incarnation, version: g.Version, last: g.Log.Last, ended: g.Log.Ended}
	if g.Version > 0 {
		v.state, _ = strconv.ParseUint(string(g.State), 10, 64)
	}
	for _, p := range g.Pending {
		attempt, _ := strconv.ParseUint(p.Identity, 10, 8)
		v.pending[p.Number] = uint8(attempt)
		if len(p.Sent) > 0 {
			v.sent |= 1 << p.Number
		}
		if p.Kept() {
			v.kept |= 1 << p.Number
		}
	}
	return v
}

// commit writes a successor of the record that the caller last saw, which may be stale.
func (c *caller) commit() {
	i := c.rnd.IntN(historyKeys)
	o := c.round.groups[i]
	attempt := o.attempts.Add(1)
	// a service may remember names for longer than a test runs
	w := record.Commit{Loaded: c.groups[i], Next: c.groups[i], Attempt: rand.Text()}
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
	if !w.Next.Log.Ended && c.oneIn(2) {
		w.Append, in.appends = c.appends(&w.Next, attempt)
	}
	in.loaded, in.next = viewOf(&w.Loaded), viewOf(&w.Next)
	a := c.make(func(ctx context.Context) error { return c.Commit(ctx, w) })
	c.log.Add(o.Object, c.number, in, groupAnswer{conflict: a.conflict, lost: a.lost}, a.began, a.ended)
	if !a.lost && !a.conflict && !in.expires {
		c.groups[i] = w.Next // as an engine continues after its commit
	}
}

// heldBy returns the held message, as put by an attempt.
func heldBy(key record.GroupKey, attempt uint64) record.Held {
	return record.Held{Message: record.Message{Stream: key.Stream, Group: key.Group, Source: "s", Epoch: 1, Sequence: heldNumber, Body: fmt.Append(nil, attempt)}}
}

// clear removes some of the entries that the caller last saw, and marks others.
func (c *caller) clear() {
	i := c.rnd.IntN(historyKeys)
	o, g := c.round.groups[i], c.groups[i]
	x := record.Clear{Group: o.key, Incarnation: g.Incarnation, Sent: map[uint64][]record.Sent{}}
	in := groupCall{do: "clear", incarnation: g.Incarnation}
	for _, p := range g.Pending {
		switch c.rnd.IntN(4) {
		case 0:
			x.Numbers = append(x.Numbers, p.Number)
			in.remove |= 1 << p.Number
		case 1:
			x.Sent[p.Number] = []record.Sent{{Effect: 0, To: "ledger"}}
			in.mark |= 1 << p.Number
		case 2:
			x.Done = append(x.Done, kept(p, c.clock.In(time.Hour)))
			in.keep |= 1 << p.Number
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
