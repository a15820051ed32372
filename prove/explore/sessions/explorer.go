package sessions

import (
	"slices"

	"github.com/effectively-once/once/internal/record"
)

// A Result is the result of an exploration.
type Result struct {
	// States is the number of distinct states, Steps the number of steps between them, Depth the
	// length of the longest shortest path to one, and Recoveries the number of stored contents from
	// which recovery was tried.
	States, Steps, Depth, Recoveries int
	// Exhausted says that all states were visited.
	Exhausted bool
	// Wrong is the violated rule, empty if there is none, and Trace a shortest trace to it.
	Wrong string
	Trace []string
}

// An explorer explores one scenario.
type explorer struct {
	*Scenario

	roles  []role
	static []record.Group // the records of the logs, if they do not change
	chunks map[[3]uint64]record.Chunk
	keys   []record.GroupKey // of the records that may exist
	names  []string          // of the sessions
	total  int               // entries

	worlds map[string]*world
	runs   []*run
	calls  map[string]int32
	made   map[[2]int32]outcome // by call and world
	tried  map[int32]bool       // worlds from which recovery was tried

	seen   map[state]struct{}
	from   []int32
	steps  []stepText
	result Result
}

func newExplorer(s *Scenario) *explorer {
	s.Recover = max(1, s.Recover)
	x := &explorer{
		Scenario: s, roles: s.cast(), chunks: map[[3]uint64]record.Chunk{},
		worlds: map[string]*world{}, calls: map[string]int32{}, made: map[[2]int32]outcome{}, tried: map[int32]bool{}, seen: map[state]struct{}{},
	}
	for i, l := range s.logsOf() {
		x.static = append(x.static, x.record(i, l))
	}
	x.names = append(slices.Compact(slices.Sorted(slices.Values(slices.Concat(s.Consumers, s.Operators, s.Skippers)))), spare)
	x.keys = append(x.keys, record.GroupKey{Stream: record.PoolsStream, Group: stream}, endKey())
	for _, name := range x.names {
		x.keys = append(x.keys, x.sessionKey(name))
	}
	for _, n := range s.Entries {
		x.total += n
	}
	return x
}

// first returns the world at the beginning.
func (x *explorer) first() *world {
	w := &world{x: x, groups: map[record.GroupKey]record.Group{}, logs: x.logsOf(), fences: make([]uint64, len(x.names))}
	if x.Ahead > 0 {
		w.put(row{Name: x.Consumers[0], Life: uint64(start().UnixMilli()), Number: x.Ahead})
	}
	return x.unique(w)
}

// An outcome is the result of a call in a world.
type outcome struct {
	w     *world
	a     answer
	wrong error
}

// make makes a call, or returns its remembered outcome.
func (x *explorer) make(c *call, w *world) outcome {
	if c.id == 0 {
		if c.id = x.calls[c.key]; c.id == 0 {
			c.id = int32(len(x.calls)) + 1 //nolint:gosec // there is no memory for more
			x.calls[c.key] = c.id
		}
	}
	at := [2]int32{c.id, w.id}
	o, ok := x.made[at]
	if !ok {
		o.w, o.a, o.wrong = c.apply(w)
		x.made[at] = o
	}
	return o
}

// unique returns the one object for equal worlds.
func (x *explorer) unique(w *world) *world {
	key := w.encode()
	if old, ok := x.worlds[key]; ok {
		return old
	}
	w.id = int32(len(x.worlds)) //nolint:gosec // there is no memory for more
	x.worlds[key] = w
	return w
}

// A run is an actor between two calls.
type run struct {
	id     int32
	of     int    // the actor's role
	text   string // the actor and its call
	script []answer
	next   map[string]*run
	call   *call // nil if it has ended
}

// begin returns the run of an actor. Those of equal roles begin with the same run.
func (x *explorer) begin(i int) int32 {
	for _, r := range x.runs {
		if len(r.script) == 0 && x.roles[r.of].title == x.roles[i].title {
			return r.id
		}
	}
	return x.advance(&run{of: i, next: map[string]*run{}}).id
}

// after returns the run after an answer.
func (x *explorer) after(r *run, a answer) *run {
	next, ok := r.next[a.key]
	if !ok {
		next = x.advance(&run{of: r.of, script: append(slices.Clip(r.script), a), next: map[string]*run{}})
		r.next[a.key] = next
	}
	return next
}

// advance runs the code of an actor up to its next call.
func (x *explorer) advance(r *run) *run {
	r.id = int32(len(x.runs)) //nolint:gosec // there is no memory for more
	x.runs = append(x.runs, r)
	h := &host{script: r.script}
	done := make(chan struct{})
	go func() { // ended by the host
		defer close(done)
		role := x.roles[r.of]
		role.play(x.actor(h, role.name))
	}()
	<-done
	if r.call = h.asked; r.call != nil {
		r.text = x.roles[r.of].title + ": " + r.call.text
	}
	return r
}
