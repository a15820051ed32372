package explore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/record"
)

// A host implements the ports of a worker that is run again. It returns the recorded answers, one
// after the other, and stops the worker at the first call without one. Code that makes different
// calls after the same answers can't be explored; then the host panics.
type host struct {
	w    *world
	name string
	// restores are those that the worker knows.
	restores record.Restores
	script   []*run // calls and answers, oldest first

	mu      sync.Mutex
	at      int
	used    []bool // the answers of script that were returned
	now     time.Time
	names   int
	asked   *call
	stopped bool
}

// ask returns the recorded answer, or records the call and ends the goroutine.
func (a *host) ask(c call, args ...any) *answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := a.find(&c)
	switch {
	case i < len(a.script) && !a.stopped:
	case i == len(a.script) && (!a.stopped || concurrent(c.op) && a.asked.op == c.op && c.text < a.asked.text):
		a.asked, a.stopped = a.w.callOf(c, args...), true
		fallthrough
	default:
		runtime.Goexit()
	}
	step := a.script[i]
	if was := step.parent.call; was.op != c.op || was.text != c.text {
		panic("explore: " + a.name + " called " + c.op + ", " + c.text + ", where it called " + was.op + ", " + was.text + ", before: its code is not deterministic")
	}
	a.used[i] = true
	for a.at < len(a.script) && a.used[a.at] {
		a.at++
	}
	if step.given.now.After(a.now) {
		a.now = step.given.now
	}
	return step.given
}

const (
	opSend    = "send"       // to a destination
	opSwap    = "swap token" // first, when the HTTP API puts a message on the queue
	opEnqueue = "enqueue"    // then
	opCommit  = "commit"     // applies messages of groups
)

// concurrent reports whether a worker makes several calls of an operation concurrently: a send to
// each destination, and a swap for each message of a batch. They are sorted by their texts.
func concurrent(op string) bool { return op == opSend || op == opSwap }

// find returns the index of a call's answer in the script, or the script's end.
func (a *host) find(c *call) int {
	i := a.at
	for concurrent(c.op) && i < len(a.script) && a.script[i].parent.call.op == c.op && (a.used[i] || a.script[i].parent.call.text != c.text) {
		i++
	}
	return i
}

func (a *host) clock() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now
}

// newID names an attempt after its delivery.
func (a *host) newID() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.names++
	return a.name + "-" + strconv.Itoa(a.names)
}

// work is the visible part of a handler: it fails or it does not.
func (a *host) work(name string) error {
	c := call{op: "handle", reads: true, text: "handle " + name}
	c.apply = func(v view) outcome { return outcome{view: v, answer: a.w.done(v.now)} }
	return a.ask(c, name).err
}

// askHandler is the visible part of a call of a batch handler: it fails, or it answers the first
// messages, at least one.
func (a *host) askHandler(messages []record.Message) (answered int, err error) {
	names := namesOf(messages)
	c := call{op: "ask", reads: true, text: "ask " + strings.Join(names, ", "), firsts: len(messages) - 1}
	c.apply = func(v view) outcome { return outcome{view: v, answer: a.w.answersOf(len(messages), v.now)} }
	got := a.ask(c, names)
	if got.err != nil {
		return 0, got.err
	}
	return got.value.(int), nil // put there by answersOf
}

// answersOf returns the answer of a batch handler to the first n messages.
func (w *world) answersOf(n int, now time.Time) *answer {
	return w.answerOf(keyOf("answers", n), fmt.Sprintf("%d answers", n), now, n, nil)
}

// storePort implements record.Store for a worker.
type storePort struct{ *host }

var (
	_ record.Store           = storePort{}
	_ record.GroupsCommitter = storePort{}
	_ record.LogReader       = storePort{}
	_ record.Queues          = queuesPort{}
	_ record.Sender          = senderPort{}
)

// loaded is the answer of a Load: a store from which it can be loaded again, so that every worker
// gets its own copies.
type loaded struct {
	store  *memstore.Store
	groups []record.GroupKey
	tokens []record.TokenKey
}

// Load reads the groups, and then the tokens: other workers may act between the two.
func (s storePort) Load(_ context.Context, groups []record.GroupKey, tokens []record.TokenKey) (gs []record.Group, ts []record.Token, err error) {
	if len(groups) > 0 || len(tokens) == 0 {
		if gs, _, err = s.load(groups, nil); err != nil {
			return nil, nil, err
		}
	}
	if len(tokens) > 0 {
		_, ts, err = s.load(nil, tokens)
	}
	return gs, ts, err
}

func (s storePort) load(groups []record.GroupKey, tokens []record.TokenKey) ([]record.Group, []record.Token, error) {
	// the order does not matter for the protocol, and may come from a map
	sorted := slices.Clone(tokens)
	slices.SortFunc(sorted, func(a, b record.TokenKey) int { return strings.Compare(string(a[:]), string(b[:])) })
	c := call{op: "load", touches: touchStore, reads: true, text: "load" + s.w.names(groups, sorted)}
	c.apply = func(v view) outcome {
		l := loaded{v.store.at(v.now), groups, sorted}
		gs, ts, err := l.store.Load(context.Background(), groups, sorted)
		return outcome{view: v, answer: s.w.answerOf(keyOf(gs, ts), show(gs, ts), v.now, l, err)}
	}
	a := s.ask(c, groups, sorted)
	if a.err != nil {
		return nil, nil, a.err
	}
	l := a.value.(loaded) // put there above
	return l.store.Load(context.Background(), groups, tokens)
}

func (s storePort) Commit(_ context.Context, c record.Commit) error {
	p := call{op: opCommit, touches: touchStore | touchPast, text: "commit " + s.w.showCommit(c)}
	p.apply = func(v view) outcome { return s.w.commit(v, c) }
	return s.ask(p, c).err
}

// CommitsDone implements record.DoneCommitter.
func (s storePort) CommitsDone() bool { return s.w.scenario.CommitsDone }

// CommitsTogether implements record.GroupsCommitter.
func (s storePort) CommitsTogether() bool { return s.w.scenario.CommitsTogether }

// CommitAll implements record.GroupsCommitter. If it fails, any of the commits may have been
// applied.
func (s storePort) CommitAll(_ context.Context, commits []record.Commit) []error {
	p := call{op: opCommit, touches: touchStore | touchPast, text: "commit together"}
	for _, c := range commits {
		p.text += " " + s.w.showCommit(c)
	}
	p.parts = parts(len(commits))
	p.some = func(v view, n int) outcome {
		o := s.w.commitAll(v, part(commits, n))
		o.answer = s.w.failed(v.now)
		return o
	}
	p.apply = func(v view) outcome { return s.w.commitAll(v, commits) }
	a := s.ask(p, commits)
	if a.err != nil {
		return slices.Repeat([]error{a.err}, len(commits))
	}
	return slices.Clone(a.value.([]error)) // put there by commitAll
}

func (s storePort) Clear(_ context.Context, c record.Clear) error {
	p := call{op: "clear", touches: touchStore, text: "clear " + c.Group.Group + " " + keyOf(c.Numbers, c.Sent) + showKept(c.Done)}
	p.apply = s.write(func(m *memstore.Store) error { return m.Clear(context.Background(), c) })
	return s.ask(p, c).err
}

func (s storePort) MarkDone(_ context.Context, tokens []record.Token) error {
	sorted := slices.Clone(tokens)
	slices.SortFunc(sorted, func(a, b record.Token) int { return strings.Compare(string(a.Key[:]), string(b.Key[:])) })
	p := call{op: "mark done", touches: touchStore, text: "mark done" + s.w.tokenNames(sorted)}
	p.parts = parts(len(sorted))
	p.some = func(v view, n int) outcome {
		o := s.write(func(m *memstore.Store) error { return m.MarkDone(context.Background(), part(sorted, n)) })(v)
		o.answer = s.w.failed(v.now)
		return o
	}
	p.apply = s.write(func(m *memstore.Store) error { return m.MarkDone(context.Background(), sorted) })
	return s.ask(p, sorted).err
}

// parts returns the number of ways to apply a list of writes: any of them may be missing; the last
// way applies all. part returns one of these ways.
func parts(n int) int { return 1<<n - 1 }

func part[T any](list []T, which int) []T {
	var out []T
	for i, x := range list {
		if which>>i&1 == 1 {
			out = append(out, x)
		}
	}
	return out
}

// write applies a write that can't fail.
func (s storePort) write(do func(*memstore.Store) error) func(view) outcome {
	return func(v view) outcome {
		m := v.store.at(v.now)
		err := do(m)
		v.store = s.w.storeOf(m)
		return outcome{view: v, answer: s.w.done(v.now), wrong: errors.Join(err, v.store.sound())}
	}
}

func (s storePort) Held(_ context.Context, from record.HeldKey, limit int) ([]record.Held, error) {
	c := call{op: "held", touches: touchStore, reads: true, text: "read held messages from " + strconv.FormatUint(from.Sequence, 10)}
	c.apply = func(v view) outcome {
		m := v.store.at(v.now)
		held, err := m.Held(context.Background(), from, limit)
		return outcome{view: v, answer: s.w.answerOf(keyOf("held", held), showHeld(held), v.now, m, err)}
	}
	a := s.ask(c, from, limit)
	if a.err != nil {
		return nil, a.err
	}
	return a.value.(*memstore.Store).Held(context.Background(), from, limit) // put there above
}

// ReadLog reads a chunk with each call: others may act between them, as between the pages of a
// query.
func (s storePort) ReadLog(_ context.Context, r record.LogRange) (chunks []record.Chunk, err error) {
	size := 0
	for at := r; !r.Enough(chunks, size) && at.After < r.Last; at.After = chunks[len(chunks)-1].Last {
		at.MaxEntries, at.MaxBytes = 1, 1
		c := call{op: "read log", touches: touchStore, reads: true, text: fmt.Sprintf("read the chunk after entry %d", at.After)}
		c.apply = func(v view) outcome {
			found, err := v.store.at(v.now).ReadLog(context.Background(), at)
			return outcome{view: v, answer: s.w.answerOf(keyOf("chunk", found), showChunks(found), v.now, found, err)}
		}
		a := s.ask(c, at)
		if a.err != nil {
			return nil, a.err
		}
		found := a.value.([]record.Chunk) // put there above
		if len(found) == 0 {
			break
		}
		chunks, size = append(chunks, found[0]), size+len(found[0].Data)
	}
	return chunks, nil
}

func (s storePort) SwapToken(_ context.Context, old, next record.Token) (record.Token, error) {
	c := call{op: opSwap, touches: touchStore, text: "swap token" + s.w.tokenNames([]record.Token{next}) + ": " + old.State.String() + " to " + next.State.String()}
	c.apply = func(v view) outcome {
		m := v.store.at(v.now)
		_, before, _ := m.Load(context.Background(), nil, []record.TokenKey{next.Key})
		found, err := m.SwapToken(context.Background(), old, next)
		if b := before[0]; err == nil && b.State == record.Leased && b.Lease.After(v.now) && next.Owner != b.Owner && next.State == record.Leased && !next.Lease.IsZero() {
			return outcome{view: v, wrong: fmt.Errorf("a lease that still runs is taken over: %s takes it from %s", next.Owner, b.Owner)}
		}
		if err != nil && !errors.Is(err, record.ErrConflict) {
			return outcome{view: v, wrong: err}
		}
		v.store = s.w.storeOf(m)
		text := "done"
		if err != nil {
			text = "conflict: it is " + found.State.String()
		}
		return outcome{view: v, answer: s.w.answerOf(keyOf("swapped", text, found), text, v.now, found, err)}
	}
	a := s.ask(c, old, next)
	found, _ := a.value.(record.Token)
	return found, a.err
}

// Groups, Tokens and Expire make the port a record.Lister, for sweeps.
func (s storePort) Groups(_ context.Context, stream string, after record.GroupKey, limit int) ([]record.Group, error) {
	c := call{op: "list groups", touches: touchStore, reads: true, text: "list groups"}
	c.apply = func(v view) outcome {
		m := v.store.at(v.now)
		gs, err := m.Groups(context.Background(), stream, after, limit)
		return outcome{view: v, answer: s.w.answerOf(keyOf("groups", gs), show(gs, nil), v.now, m, err)}
	}
	a := s.ask(c, stream, after, limit)
	if a.err != nil {
		return nil, a.err
	}
	// put there above
	return a.value.(*memstore.Store).Groups(context.Background(), stream, after, limit)
}

func (s storePort) Tokens(context.Context, record.TokenKey, int) ([]record.Token, error) {
	return nil, errors.New("not explored")
}

func (s storePort) Expire(context.Context, int) (int, error) {
	return 0, errors.New("not explored")
}
