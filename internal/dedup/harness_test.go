package dedup_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/record"
)

// A lab holds everything that outlives a process: the store, the queues, the destinations, the
// blobs and the clock.
type lab struct {
	t     *testing.T
	store *memstore.Store
	// commitsDone says that the store of new workers marks tokens done in a commit.
	commitsDone bool
	// commitsTogether says that the store of new workers commits several groups with one write.
	commitsTogether bool
	// batched says that new workers have a batch handler for each stream with state. It runs the
	// handler of the stream for each message. answers returns how many of n messages it answers, 0
	// to fail; nil means all of them. calls are its calls, as "state: identities".
	batched bool
	answers func(n int) int
	calls   []string

	mu       sync.Mutex
	now      time.Time
	names    int
	triggers []trigger
	returned []record.Message
	dead     []record.Refused
	delayed  []record.Delayed
	sent     []arrival // every copy, in the order of arrival
	staged   map[string][]byte
	blobs    map[string][]byte
	events   []record.Event
	// handlers by identity, instead of the one that reads the body
	scripts map[string]record.Handler
	tried   map[string]bool // identities of flaky messages
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

// pass moves the clock.
func (l *lab) pass(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = l.now.Add(d)
}

// handle is the handler of tests. The body is its script, word by word:
//
//	kb=N        makes the effects and the reply that follow N KiB larger
//	send        one effect to "out"; send=a+b to those destinations
//	reply       answers with the identity
//	blob=K      makes an object under the key
//	after=D     one effect to "out" after a delay; after=D/a+b to those destinations
//	set=N/D     sets the timer N after a delay; its message has the script "send"
//	cancel=N    cancels the timer N
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
		case "after", "set", "cancel":
			if err := later(a, verb, value, body); err != nil {
				return err
			}
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

// later follows the words of a script about time.
func later(a *record.Attempt, verb, value string, body []byte) error {
	first, second, _ := strings.Cut(value, "/")
	switch verb {
	case "cancel":
		return a.CancelTimer(value)
	case "set":
		after, err := time.ParseDuration(second)
		if err != nil {
			return err
		}
		return a.SetTimer(first, after, record.Effect{Body: []byte("send")})
	}
	after, err := time.ParseDuration(first)
	if err != nil {
		return err
	}
	return a.SendAfter(record.Effect{To: strings.Split(cmp.Or(second, "out"), "+"), Body: body}, after)
}

// keyed returns messages of group g for stream s: "id" or "id: body".
func keyed(texts ...string) []record.Message {
	out := make([]record.Message, len(texts))
	for i, text := range texts {
		id, body, _ := strings.Cut(text, ": ")
		out[i] = record.Message{Stream: "s", Group: "g", ID: id, Body: []byte(body)}
	}
	return out
}

// numbered returns messages of group g for stream s: "sequence" or "source/epoch/sequence", each
// optionally with ": body".
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

// process runs a batch and returns the outcomes as text: the kind, the reason, the reply.
func (w *worker) process(messages ...record.Message) []string {
	return fates(w.Process(context.Background(), messages))
}

func fates(outcomes []record.Outcome) []string {
	out := make([]string, len(outcomes))
	for i, o := range outcomes {
		out[i] = strings.TrimSpace(o.Kind.String() + " " + string(o.Reason))
		if o.Reply != nil && o.Kind != record.Rejected {
			out[i] += " with " + string(o.Reply.Body)
		}
	}
	return out
}

// group returns the record of group g of stream s.
func (l *lab) group() record.Group { return l.record("g") }

func (l *lab) record(name string) record.Group {
	l.t.Helper()
	groups, _, err := l.store.Load(context.Background(), []record.GroupKey{{Stream: "s", Group: name}}, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	return groups[0]
}

// token returns the token of a message without a number.
func (l *lab) token(m record.Message) record.Token {
	l.t.Helper()
	_, tokens, err := l.store.Load(context.Background(), nil, []record.TokenKey{record.NewTokenKey(m.Principal, m.Stream, m.Identity())})
	if err != nil {
		l.t.Fatal(err)
	}
	return tokens[0]
}

// publish serves the triggers that are due, until there are none, in a process without faults.
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

// arrived returns the first copies of the deliveries to a destination, in order.
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

// lettered returns the dead letters as "identity reason".
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
	if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// summary returns the content of a record in one line.
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
