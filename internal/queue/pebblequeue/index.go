package pebblequeue

import "container/heap"

type state uint8

const (
	sending  state = iota // being written: has its place, can't be received
	delayed               // until due
	ready                 // can be received, when its group is free
	inFlight              // hidden until due
	states
)

// An entry is the part of a message that is kept in memory; it is small.
type entry struct {
	seq        uint64
	due        int64 // Unix nanoseconds
	group      *group
	next, prev *entry // in the group, or in the ready list of a standard queue
	timer      int32  // index in the heap, -1 if it is not there
	receives   uint32
	state      state
	leaving    bool // a call is deleting or moving it
	place      bool // it is a place, see [Place]: there is no message yet
	paused     bool // it was received, and is hidden until its next try
}

// A group keeps its messages in order, including those in flight. It is in the ready list if none
// is in flight and the first one is ready.
type group struct {
	entries    list
	hash       uint64
	next, prev *group
	busy       int32
	listed     bool
}

// An index holds the order and the state of all messages. The caller holds the queue's lock.
type index struct {
	fifo     bool
	ready    list // of a standard queue
	groups   map[uint64]*group
	first    *group // ready list
	last     *group
	timers   timers
	received map[uint64]*entry // entries received at least once, for receipts
	counts   [states]int
	paused   int
}

func newIndex(fifo bool) *index {
	return &index{fifo: fifo, groups: map[uint64]*group{}, received: map[uint64]*entry{}}
}

// add appends a message to its group.
func (x *index) add(seq, hash uint64) *entry {
	e := &entry{seq: seq, timer: -1, state: sending}
	x.counts[sending]++
	if !x.fifo {
		return e
	}
	g := x.groups[hash]
	if g == nil {
		g = &group{hash: hash}
		x.groups[hash] = g
	}
	e.group = g
	g.entries.push(e)
	return e
}

// delay hides a new message until a time.
func (x *index) delay(e *entry, until int64) {
	x.enter(e, delayed)
	x.alarm(e, until)
}

// show makes a message ready.
func (x *index) show(e *entry) {
	x.enter(e, ready)
	if e.group == nil {
		x.ready.push(e)
		return
	}
	x.settle(e.group)
}

// hide puts a ready message in flight, or extends the time of one in flight.
func (x *index) hide(e *entry, until int64) {
	x.enter(e, inFlight)
	x.alarm(e, until)
}

// pause hides a message that was received until its next try.
func (x *index) pause(e *entry, until int64) {
	x.hide(e, until)
	e.paused = true
	x.paused++
}

// claim keeps a message that is being deleted or moved from being received. It returns false if
// another call has claimed it already.
func (x *index) claim(e *entry) bool {
	if e.leaving {
		return false
	}
	e.leaving = true
	if e.state != inFlight {
		x.enter(e, inFlight)
	}
	if e.timer >= 0 {
		heap.Remove(&x.timers, int(e.timer))
	}
	return true
}

// unclaim releases a claim: the message becomes visible when its visibility time ends.
func (x *index) unclaim(e *entry) {
	e.leaving = false
	x.alarm(e, e.due)
}

// remove removes a message in any state.
func (x *index) remove(e *entry) {
	x.enter(e, states)
	delete(x.received, e.seq)
	if g := e.group; g != nil {
		g.entries.remove(e)
		x.settle(g)
	}
}

// enter moves an entry to another state and updates the counts.
func (x *index) enter(e *entry, to state) {
	if e.timer >= 0 {
		heap.Remove(&x.timers, int(e.timer))
	}
	if e.group == nil && e.state == ready {
		x.ready.remove(e)
	}
	if e.group != nil && e.state == inFlight {
		e.group.busy--
	}
	if e.paused {
		e.paused = false
		x.paused--
	}
	x.counts[e.state]--
	e.state = to
	if to == states {
		return
	}
	x.counts[to]++
	if e.group != nil && to == inFlight {
		e.group.busy++
	}
}

func (x *index) alarm(e *entry, at int64) {
	e.due = at
	heap.Push(&x.timers, e)
}

// settle adds a group to the ready list or removes it, after a change of its messages.
func (x *index) settle(g *group) {
	head := g.entries.head
	free := head != nil && head.state == ready && g.busy == 0
	switch {
	case free && !g.listed:
		x.list(g)
	case !free && g.listed:
		x.unlist(g)
	}
	if head == nil {
		delete(x.groups, g.hash)
	}
}

func (x *index) list(g *group) {
	g.listed, g.prev, g.next = true, x.last, nil
	if x.last == nil {
		x.first = g
	} else {
		x.last.next = g
	}
	x.last = g
}

func (x *index) unlist(g *group) {
	if g.prev == nil {
		x.first = g.next
	} else {
		g.prev.next = g.next
	}
	if g.next == nil {
		x.last = g.prev
	} else {
		g.next.prev = g.prev
	}
	g.listed, g.prev, g.next = false, nil, nil
}

// hasReady reports whether take would return a message.
func (x *index) hasReady() bool { return x.ready.head != nil || x.first != nil }

// expire makes all messages ready whose hidden time has ended.
func (x *index) expire(now int64) {
	for len(x.timers) > 0 && x.timers[0].due <= now {
		x.show(x.timers[0])
	}
}

// take hides and returns up to limit messages: all ready ones of the group that has waited longest,
// in order, then those of the next group. A message that has been received maxReceives times (0
// means no limit) is claimed and returned in dead instead; it blocks its group until it is moved.
func (x *index) take(limit int, until int64, maxReceives uint32) (taken, dead []*entry) {
	out := func(e *entry) bool {
		x.hide(e, until)
		if maxReceives > 0 && e.receives >= maxReceives {
			x.claim(e)
			dead = append(dead, e)
			return false
		}
		e.receives++
		x.received[e.seq] = e
		taken = append(taken, e)
		return true
	}
	for len(taken)+len(dead) < limit && x.ready.head != nil {
		out(x.ready.head)
	}
	for len(taken)+len(dead) < limit && x.first != nil {
		g := x.first
		x.unlist(g)
		for e := g.entries.head; e != nil && e.state == ready && len(taken)+len(dead) < limit; e = e.next {
			if !out(e) {
				break
			}
		}
	}
	return taken, dead
}

// A list is a linked list of entries.
type list struct{ head, tail *entry }

func (l *list) push(e *entry) {
	e.prev, e.next = l.tail, nil
	if l.tail == nil {
		l.head = e
	} else {
		l.tail.next = e
	}
	l.tail = e
}

func (l *list) remove(e *entry) {
	if e.prev == nil {
		l.head = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.tail = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
}

// timers is a heap of hidden entries, ordered by due time.
type timers []*entry

func (t timers) Len() int { return len(t) }

// Less keeps the order of sending among messages that were hidden together.
func (t timers) Less(i, j int) bool {
	return t[i].due < t[j].due || t[i].due == t[j].due && t[i].seq < t[j].seq
}

func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].timer, t[j].timer = int32(i), int32(j) //nolint:gosec // places in a heap that fits into memory
}

func (t *timers) Push(e any) {
	e.(*entry).timer = int32(len(*t)) //nolint:gosec // a place in a heap that fits into memory
	*t = append(*t, e.(*entry))
}

func (t *timers) Pop() any {
	old := *t
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*t = old[:len(old)-1]
	e.timer = -1
	return e
}
