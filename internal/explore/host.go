package explore

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/record"
)

// A host stands between a worker that is rebuilt and its ports: it gives the answers that the worker had, one after the other, and stops it at the first call that was not
// answered yet. Code that makes different calls after the same answers can't be explored; the host panics then.
type host struct {
	w      *world
	name   string
	script []*run // what was asked and answered, oldest first

	mu      sync.Mutex
	at      int
	now     time.Time
	names   int
	asked   *call
	stopped bool
}

// ask gives the recorded answer, or notes the call and ends the goroutine.
func (a *host) ask(c call, args ...any) *answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		runtime.Goexit()
	}
	if a.at == len(a.script) {
		a.asked, a.stopped = a.w.callOf(c, args...), true
		runtime.Goexit()
	}
	step := a.script[a.at]
	if step.parent.call.op != c.op {
		panic("explore: " + a.name + " called " + c.op + " where it called " + step.parent.call.op + " before: its code is not deterministic")
	}
	a.at++
	a.now = step.given.now
	return step.given
}

func (a *host) clock() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now
}

// newID names an attempt after the delivery that it is for.
func (a *host) newID() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.names++
	return a.name + "-" + strconv.Itoa(a.names)
}

// storePort is the store as a worker sees it.
type storePort struct{ *host }

var (
	_ record.Store  = storePort{}
	_ record.Queues = queuesPort{}
	_ record.Sender = senderPort{}
	_ record.Blobs  = blobsPort{}
)

// loaded is the value of a Load's answer: a store to load it from again, so that every worker has copies of its own.
type loaded struct {
	store  *memstore.Store
	groups []record.GroupKey
	tokens []record.TokenKey
}

func (s storePort) Load(_ context.Context, groups []record.GroupKey, tokens []record.TokenKey) ([]record.Group, []record.Token, error) {
	sorted := slices.Clone(tokens) // their order is no matter of the protocol, and may come from a map
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
	p := call{op: "commit", touches: touchStore | touchPast, text: "commit " + showCommit(c)}
	p.apply = func(v view) outcome { return s.w.commit(v, c) }
	return s.ask(p, c).err
}

func (s storePort) Clear(_ context.Context, c record.Clear) error {
	p := call{op: "clear", touches: touchStore, text: "clear " + c.Group.Group + " " + keyOf(c.Numbers, c.Sent)}
	p.apply = s.write(func(m *memstore.Store) error { return m.Clear(context.Background(), c) })
	return s.ask(p, c).err
}

func (s storePort) MarkDone(_ context.Context, tokens []record.Token) error {
	sorted := slices.Clone(tokens)
	slices.SortFunc(sorted, func(a, b record.Token) int { return strings.Compare(string(a.Key[:]), string(b.Key[:])) })
	p := call{op: "mark done", touches: touchStore, text: "mark done" + s.w.tokenNames(sorted)}
	p.apply = s.write(func(m *memstore.Store) error { return m.MarkDone(context.Background(), sorted) })
	return s.ask(p, sorted).err
}

// write applies a write that can't fail.
func (s storePort) write(do func(*memstore.Store) error) func(view) outcome {
	return func(v view) outcome {
		m := v.store.at(v.now)
		err := do(m)
		v.store = s.w.storeOf(m)
		return outcome{view: v, answer: s.w.done(v.now), wrong: err}
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

func (s storePort) SwapToken(_ context.Context, old, next record.Token) (record.Token, error) {
	c := call{op: "swap token", touches: touchStore, text: "swap token" + s.w.tokenNames([]record.Token{next}) + ": " + old.State.String() + " to " + next.State.String()}
	c.apply = func(v view) outcome {
		m := v.store.at(v.now)
		found, err := m.SwapToken(context.Background(), old, next)
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
	return a.value.(*memstore.Store).Groups(context.Background(), stream, after, limit) // put there above
}

func (s storePort) Tokens(context.Context, record.TokenKey, int) ([]record.Token, error) {
	return nil, errors.New("not explored")
}

func (s storePort) Expire(context.Context, int) (int, error) {
	return 0, errors.New("not explored")
}

// queuesPort is the queues as a worker sees them.
type queuesPort struct{ *host }

// put changes the queues.
func (q queuesPort) put(op string, what []string, change func(*queuesPart)) error {
	c := call{op: op, touches: touchQueues, text: op + " " + strings.Join(what, ", ")}
	c.apply = func(v view) outcome {
		v.queues = q.w.change(v.queues, change)
		return outcome{view: v, answer: q.w.done(v.now)}
	}
	return q.ask(c, what).err
}

// Trigger puts triggers on the queue. One with a delay comes when the call that sent it is over: that is what the delay is for.
func (q queuesPort) Trigger(_ context.Context, groups []record.GroupKey, delay time.Duration) error {
	var what []string
	for _, g := range groups {
		t := g.Group
		if delay > 0 {
			t += afterWorker + q.name
		}
		what = append(what, t)
	}
	return q.put("trigger", what, func(p *queuesPart) {
		for _, g := range what {
			p.trigger(g, q.w.scenario.Workers.Publish)
		}
	})
}

func (q queuesPort) Return(_ context.Context, messages []record.Message) error {
	return q.enqueue("return", messages)
}

// Defer puts messages back for later; any time is as good as another.
func (q queuesPort) Defer(_ context.Context, messages []record.Message) error {
	return q.enqueue("defer", messages)
}

// Enqueue implements api.Queue.
func (q queuesPort) Enqueue(_ context.Context, m record.Message) error {
	return q.enqueue("enqueue", []record.Message{m})
}

func (q queuesPort) enqueue(op string, messages []record.Message) error {
	what := namesOf(messages)
	return q.put(op, what, func(p *queuesPart) { p.messages = append(p.messages, what...) })
}

func (q queuesPort) DeadLetter(_ context.Context, refused []record.Refused) error {
	var what []string
	for _, r := range refused {
		what = append(what, nameOf(r.Message)+": "+string(r.Reason))
	}
	return q.put("dead-letter", what, func(p *queuesPart) { p.dead = append(p.dead, what...) })
}

// senderPort is the destination as a worker sees it.
type senderPort struct{ *host }

func (s senderPort) Send(_ context.Context, deliveries []record.Delivery) []error {
	list := make([]sent, len(deliveries))
	for i, d := range deliveries {
		list[i] = sent{
			Identity: d.Identity, To: destination, Path: d.Stream + "/" + d.Group, Incarnation: d.Incarnation, Number: d.Number, Sequence: d.Sequence, Body: string(d.Effect.Body),
		}
	}
	c := call{op: "send", touches: touchSends | touchPast, text: "send " + showSent(list), parts: len(list)}
	c.some = func(v view, n int) outcome { return s.w.send(v, list, n) }
	c.apply = func(v view) outcome { return c.some(v, len(list)) }
	a := s.ask(c, list)
	errs := make([]error, len(list))
	settled, _ := a.value.(int)
	for i := range errs {
		if i >= settled {
			errs[i] = errNoAnswer
		}
	}
	return errs
}

// blobsPort is the bucket as a worker sees it.
type blobsPort struct{ *host }

func (b blobsPort) Check(string) error { return nil }

func (b blobsPort) Stage(_ context.Context, name string, body []byte) error {
	return b.change("stage", name, func(v view, staged map[string]stagedBlob, _ map[string]string) {
		staged[name] = stagedBlob{string(body), v.now}
	})
}

func (b blobsPort) Publish(_ context.Context, blob record.Blob) error {
	return b.change("publish blob", blob.Staged, func(_ view, staged map[string]stagedBlob, published map[string]string) {
		if s, ok := staged[blob.Staged]; ok {
			published[blob.Key] = s.Body
			delete(staged, blob.Staged)
		}
	})
}

func (b blobsPort) Discard(_ context.Context, names []string) error {
	return b.change("discard", strings.Join(names, ", "), func(_ view, staged map[string]stagedBlob, _ map[string]string) {
		for _, name := range names {
			delete(staged, name)
		}
	})
}

func (b blobsPort) Staged(_ context.Context, before time.Time) ([]string, error) {
	c := call{op: "list staged", touches: touchBlobs, reads: true, text: "list what is staged"}
	c.apply = func(v view) outcome {
		var names []string
		for name, s := range v.blobs.staged {
			if s.At.Before(before) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return outcome{view: v, answer: b.w.answerOf(keyOf("staged", names), strings.Join(names, ", "), v.now, names, nil)}
	}
	a := b.ask(c, before)
	names, _ := a.value.([]string)
	return slices.Clone(names), a.err
}

func (b blobsPort) change(op, what string, change func(v view, staged map[string]stagedBlob, published map[string]string)) error {
	c := call{op: op, touches: touchBlobs, text: op + " " + what}
	c.apply = func(v view) outcome {
		staged, published := maps.Clone(v.blobs.staged), maps.Clone(v.blobs.published)
		change(v, staged, published)
		v.blobs = b.w.blobsOf(staged, published)
		return outcome{view: v, answer: b.w.done(v.now)}
	}
	return b.ask(c, what).err
}
