package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/record"
)

// A lab is everything that outlives a process: the store, the queues, the destinations, the blobs and the clock.
type lab struct {
	t     *testing.T
	store *memstore.Store

	mu       sync.Mutex
	now      time.Time
	names    int
	triggers []trigger
	returned []record.Message
	dead     []record.Refused
	sent     []arrival // every copy, in the order of arrival
	staged   map[string][]byte
	blobs    map[string][]byte
	events   []record.Event
	scripts  map[string]record.Handler // by identity, in place of what the body says
	tried    map[string]bool           // identities of flaky messages
}

type trigger struct {
	Key   record.GroupKey
	Delay time.Duration
}

type arrival struct {
	To string
	record.Delivery
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{
		t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		staged: map[string][]byte{}, blobs: map[string][]byte{}, scripts: map[string]record.Handler{}, tried: map[string]bool{},
	}
	l.store = memstore.New(l.clock)
	return l
}

func (l *lab) clock() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// pass lets time go by.
func (l *lab) pass(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = l.now.Add(d)
}

// A fault is what happens at a port call.
type fault int

const (
	works       fault = iota
	failsBefore       // nothing was applied
	failsAfter        // applied, and the answer is lost
)

var errInjected = errors.New("injected fault")

// A worker is one process: an engine, and its way to the ports.
type worker struct {
	*lab
	*dedup.Engine
	mu    sync.Mutex
	trace []string
	// at decides about a call by its text, see trace, before it is made. It may do what another worker would do at that moment.
	at func(call string) fault
}

// worker starts a process that serves streams.
func (l *lab) worker(streams ...record.Stream) *worker {
	l.t.Helper()
	return l.workerOf(dedup.Config{Streams: streams})
}

func (l *lab) workerOf(cfg dedup.Config) *worker {
	l.t.Helper()
	w := &worker{lab: l}
	for i := range cfg.Streams {
		if s := &cfg.Streams[i]; s.Handler == nil {
			s.Handler = w.handle(s.Stateless)
		}
	}
	if cfg.Store == nil {
		cfg.Store = portStore{w}
	}
	cfg.Queues, cfg.Blobs, cfg.Now, cfg.NewID = w, blobPort{w}, l.clock, l.name
	if cfg.Senders == nil {
		cfg.Senders = map[string]record.Sender{"out": destination{w, "out"}, "side": destination{w, "side"}, "next": destination{w, "next"}}
		cfg.Sequenced = map[string]bool{"next": true}
	}
	cfg.Pause = func(ctx context.Context, _ int) error { return ctx.Err() }
	cfg.Observe = func(e record.Event) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.events = append(l.events, e)
	}
	var err error
	if w.Engine, err = dedup.New(cfg); err != nil {
		l.t.Fatal(err)
	}
	return w
}

func (l *lab) name() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names++
	return "a" + strconv.Itoa(l.names)
}

// call makes a port call, unless the test has another plan for it.
func (w *worker) call(text string, do func() error) error {
	w.mu.Lock()
	w.trace = append(w.trace, text)
	at := w.at
	w.mu.Unlock()
	f := works
	if at != nil {
		f = at(text)
	}
	if f == failsBefore {
		return errInjected
	}
	if err := do(); err != nil || f == works {
		return err
	}
	return errInjected
}

// nth is an at that acts once, on the n-th call (from 1) whose text starts so.
func nth(n int, prefix string, act func() fault) func(string) fault {
	var seen atomic.Int64
	return func(call string) fault {
		if strings.HasPrefix(call, prefix) && seen.Add(1) == int64(n) {
			return act()
		}
		return works
	}
}

// between is an at that lets others act before the first such call.
func between(prefix string, act func()) func(string) fault {
	return nth(1, prefix, func() fault { act(); return works })
}

// once is an at that makes the first such call fail.
func once(prefix string, f fault) func(string) fault {
	return nth(1, prefix, func() fault { return f })
}

// both is an at that does what any of some does.
func both(ats ...func(string) fault) func(string) fault {
	return func(call string) fault {
		f := works
		for _, at := range ats {
			f = max(f, at(call))
		}
		return f
	}
}

// always is an at that makes all such calls fail.
func always(prefix string, f fault) func(string) fault {
	return func(call string) fault {
		if strings.HasPrefix(call, prefix) {
			return f
		}
		return works
	}
}

// dies is an at of a process that ends at its first such call, before it is made or after.
func dies(prefix string, at fault) func(string) fault {
	var dead atomic.Bool
	return func(call string) fault {
		switch {
		case dead.Load():
			return failsBefore
		case strings.HasPrefix(call, prefix):
			dead.Store(true)
			return at
		}
		return works
	}
}

// calls gives the trace and begins a new one.
func (w *worker) calls() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	trace := w.trace
	w.trace = nil
	return trace
}

// handle is the handler of tests. The body says what it does, word by word:
//
//	kb=N        makes the effects and the reply that follow N KiB larger
//	send        one effect to "out"; send=a+b to those destinations
//	reply       answers with the identity
//	blob=K      makes an object under the key
//	fail reject panic flaky, which fails once
//
// Unless the stream is stateless, it adds the identity to the state.
func (w *worker) handle(stateless bool) record.Handler {
	return func(ctx context.Context, a *record.Attempt, m record.Message) error {
		w.mu.Lock()
		w.trace = append(w.trace, "run "+m.Identity())
		w.mu.Unlock()
		if !stateless {
			a.State = append(a.State, m.Identity()+","...)
		}
		w.lab.mu.Lock()
		script := w.scripts[m.Identity()]
		w.lab.mu.Unlock()
		if script != nil {
			return script(ctx, a, m)
		}
		return w.follow(a, m)
	}
}

var errHandler = errors.New("the handler fails")

func (l *lab) follow(a *record.Attempt, m record.Message) error {
	body := []byte(m.Identity())
	for word := range strings.FieldsSeq(string(m.Body)) {
		verb, value, _ := strings.Cut(word, "=")
		switch verb {
		case "kb":
			n, err := strconv.Atoi(value)
			if err != nil {
				return err
			}
			body = append(body, make([]byte, n<<10)...)
		case "send":
			if value == "" {
				value = "out"
			}
			a.Send(record.Effect{To: strings.Split(value, "+"), Body: body})
		case "reply":
			a.Reply(record.Reply{Status: 200, Body: body})
		case "blob":
			a.Blob(value, []byte(m.Identity()))
		case "fail":
			return errHandler
		case "reject":
			return &record.RejectError{Detail: "no"}
		case "flaky":
			l.mu.Lock()
			tried := l.tried[m.Identity()]
			l.tried[m.Identity()] = true
			l.mu.Unlock()
			if !tried {
				return errHandler
			}
		case "panic":
			panic("the handler panics")
		}
	}
	return nil
}

// keyed makes messages of group g for stream s: "id" or "id: body".
func keyed(texts ...string) []record.Message {
	out := make([]record.Message, len(texts))
	for i, text := range texts {
		id, body, _ := strings.Cut(text, ": ")
		out[i] = record.Message{Stream: "s", Group: "g", ID: id, Body: []byte(body)}
	}
	return out
}

// numbered makes messages of group g for stream s: "sequence" or "source/epoch/sequence", each with ": body" where it has one.
func numbered(texts ...string) []record.Message {
	out := make([]record.Message, len(texts))
	for i, text := range texts {
		id, body, _ := strings.Cut(text, ": ")
		if !strings.Contains(id, "/") {
			id = "p/0/" + id
		}
		parts := strings.Split(id, "/")
		epoch, err1 := strconv.ParseUint(parts[1], 10, 64)
		sequence, err2 := strconv.ParseUint(parts[2], 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			panic(err)
		}
		out[i] = record.Message{Stream: "s", Group: "g", Source: parts[0], Epoch: epoch, Sequence: sequence, Body: []byte(body)}
	}
	return out
}

// process runs a batch and gives the fates as text: the kind, the reason, the reply.
func (w *worker) process(messages ...record.Message) []string {
	return fates(w.Process(context.Background(), messages))
}

func fates(outcomes []record.Outcome) []string {
	out := make([]string, len(outcomes))
	for i, o := range outcomes {
		out[i] = strings.TrimSpace(o.Kind.String() + " " + string(o.Reason))
		if o.Reply != nil {
			out[i] += " with " + string(o.Reply.Body)
		}
	}
	return out
}

// group gives the record of group g of stream s.
func (l *lab) group() record.Group { return l.record("g") }

func (l *lab) record(name string) record.Group {
	l.t.Helper()
	groups, _, err := l.store.Load(context.Background(), []record.GroupKey{{Stream: "s", Group: name}}, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	return groups[0]
}

// token gives the token of a message without number.
func (l *lab) token(m record.Message) record.Token {
	l.t.Helper()
	_, tokens, err := l.store.Load(context.Background(), nil, []record.TokenKey{record.NewTokenKey(m.Principal, m.Stream, m.Identity())})
	if err != nil {
		l.t.Fatal(err)
	}
	return tokens[0]
}

// publish serves the triggers that are due, until there are none, with a process that nothing happens to.
func (l *lab) publish(streams ...record.Stream) {
	l.t.Helper()
	for {
		l.mu.Lock()
		triggers := l.triggers
		l.triggers = nil
		l.mu.Unlock()
		if len(triggers) == 0 {
			return
		}
		for _, x := range triggers {
			if err := l.worker(streams...).Publish(context.Background(), []record.GroupKey{x.Key})[0]; err != nil {
				l.t.Fatal(err)
			}
		}
	}
}

// arrived lists the first copies of what came to a destination, in their order.
func (l *lab) arrived(destination string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, d := range l.sent {
		if d.To == destination && !slices.Contains(out, d.Identity) {
			out = append(out, d.Identity)
		}
	}
	return out
}

// lettered lists dead letters as "identity reason".
func (l *lab) lettered() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for _, r := range l.dead {
		id := r.Message.Identity()
		if r.Delivery != nil {
			id = r.Delivery.Identity
		}
		out = append(out, id+" "+string(r.Reason))
	}
	return out
}

func same[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// summary tells what a record holds, in one line.
func summary(g record.Group) string {
	text := fmt.Sprintf("v%d state=%s pending=", g.Version, g.State)
	for _, p := range g.Pending {
		text += fmt.Sprintf("[%d %s %d effects]", p.Number, p.Identity, len(p.Effects))
	}
	for _, key := range slices.Sorted(maps.Keys(g.Sources)) {
		s := g.Sources[key]
		text += fmt.Sprintf(" %s/%d next=%d", key, s.Epoch, s.Next)
		if len(s.Held) > 0 {
			text += fmt.Sprintf(" held=%v", s.Held)
		}
		if len(s.Skipped) > 0 {
			text += fmt.Sprintf(" skipped=%v", s.Skipped)
		}
	}
	return text
}
