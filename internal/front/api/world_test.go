package api_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/follow"
	"github.com/effectively-once/once/internal/testkit/concurrent"
	"github.com/effectively-once/once/internal/testkit/memnet"
)

// A world is the HTTP API with the real engine behind it, on a real listener. Its queue processes
// messages immediately, unless the test stops it.
type world struct {
	t      *testing.T
	engine *dedup.Engine
	store  *faultyStore
	queue  *ingress
	server *httptest.Server
	spec   *contract
	log    *concurrent.Buffer
	runs   atomic.Int64
	hub    follow.Hub

	inMemory bool // the listener is not that of a real network
}

// inMemory is a change for tests with virtual time.
func inMemory(w *world, _ *api.Options) { w.inMemory = true }

// newWorld starts a world; change may set options and may wrap the engine.
func newWorld(t *testing.T, change ...func(*world, *api.Options)) *world {
	t.Helper()
	w := &world{t: t, spec: newContract(t), log: &concurrent.Buffer{}}
	w.store = &faultyStore{groupStore: memstore.New(time.Now)}
	w.queue = &ingress{}
	w.hub.LookAgain = time.Hour // so that only appends wake readers
	w.engine = w.newEngine()
	w.queue.engine = w.engine
	options := api.Options{
		Engine: w.engine, Queue: w.queue, Logs: follow.NewLogs(w.store, &w.hub), Groups: follow.NewGroups(w.store, &w.hub), Log: slog.New(slog.NewTextHandler(w.log, nil)),
		Principal: func(r *http.Request) (string, error) {
			if r.Header.Get("Test-Principal") == "intruder" {
				return "", errors.New("internal text: not on the list")
			}
			return r.Header.Get("Test-Principal"), nil
		},
	}
	for _, c := range change {
		c(w, &options)
	}
	if w.inMemory {
		w.server = new(memnet.Network).Serve(&http.Server{Handler: api.New(options)})
	} else {
		w.server = httptest.NewServer(api.New(options))
	}
	t.Cleanup(w.server.Close)
	t.Cleanup(w.queue.working.Wait)
	return w
}

func (w *world) newEngine() *dedup.Engine {
	w.t.Helper()
	e, err := dedup.New(dedup.Config{
		Store:    w.store,
		Queues:   w.queue,
		Large:    true,
		Senders:  map[string]record.Sender{"out": sink{}},
		Appended: w.hub.Appended,
		Streams: []record.Stream{
			{Name: "orders", Handler: w.handle, Stateless: true},
			{Name: "payments", Admission: record.ByToken, Handler: w.handle},
			{Name: "chat", Admission: record.BySequence, Handler: w.handle},
			{Name: "room", Handler: w.handle, LogRetention: time.Hour, LogMessages: true},
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return e
}

// handle is the handler: the body selects its result.
func (w *world) handle(_ context.Context, a *record.Attempt, m record.Message) error {
	w.runs.Add(1)
	switch string(m.Body) {
	case "reply":
		a.Reply(record.Reply{Status: 409, Header: map[string][]string{"Content-Type": {"text/plain"}, "X-Why": {"a", "b"}}, Body: []byte("not enough money\x00")})
	case "send":
		a.Send(record.Effect{To: []string{"out"}})
	case "send and reply":
		a.Send(record.Effect{To: []string{"out"}})
		a.Reply(record.Reply{Status: 201})
	case "binary":
		a.Reply(record.Reply{Status: 201, Body: []byte{0xff, 0x00}})
	case "nonsense":
		a.Reply(record.Reply{Status: 103})
	case "sneaky":
		a.Reply(record.Reply{Status: 200, Header: map[string][]string{"connection": {"close"}, "Transfer-Encoding": {"chunked"}, "Content-Length": {"1"}, "Date": {"never"}}, Body: []byte("whole")})
	case "pass on": // the answer of another server about the same message
		a.Reply(record.Reply{Status: 202, Header: map[string][]string{
			"Content-Type": {"application/json"}, "Location": {"/v1/streams/orders/messages/1"}, "once-reply": {"no"}, "Idempotent-Replayed": {"no"},
		}, Body: []byte(`{"id":"1","stream":"orders","group":"1","status":"accepted"}`)})
	case "refuse":
		return &record.RejectError{Detail: "not a transfer", Err: errors.New("internal text: offset 7")}
	case "fail":
		return errors.New("internal text: database password is 1234")
	}
	return nil
}

// ingress is an ingress queue that processes each message in a separate goroutine, and the other
// queues around the engine.
type ingress struct {
	engine  *dedup.Engine
	working sync.WaitGroup
	taken   atomic.Int64

	mu     sync.Mutex
	paused bool
	err    error
	lost   bool // the message is put, and the answer lost
	last   record.Message
	list   []string // the ids of the messages that were put
	full   string   // the id of a message that is not taken, and none of its group behind it
}

func (q *ingress) set(change func(*ingress)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	change(q)
}

func (q *ingress) EnqueueAll(ctx context.Context, messages []record.Message) []error {
	errs := make([]error, len(messages))
	stopped := ""
	for i := range messages {
		m := &messages[i]
		if m.GroupName() == stopped || m.ID != "" && m.ID == q.full {
			stopped, errs[i] = m.GroupName(), errors.New("internal text: the queue is full")
			continue
		}
		errs[i] = q.enqueue(ctx, *m)
	}
	return errs
}

func (q *ingress) names() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.list
}

func (q *ingress) enqueue(ctx context.Context, m record.Message) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil && !q.lost {
		return q.err
	}
	q.taken.Add(1)
	q.last = m
	q.list = append(q.list, m.Identity())
	if !q.paused {
		q.working.Go(func() { q.process(context.WithoutCancel(ctx), m) })
	}
	return q.err
}

func (q *ingress) message() record.Message {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.last
}

func (q *ingress) process(ctx context.Context, m record.Message) {
	outcome := q.engine.Process(ctx, []record.Message{m})[0]
	if outcome.Kind == record.Rejected {
		_ = q.engine.Refuse(ctx, []record.Refused{{Message: m, Reason: outcome.Reason, Detail: outcome.Detail}})
	}
}

func (q *ingress) Trigger(context.Context, []record.GroupKey, time.Duration) error { return nil }
func (q *ingress) Return(context.Context, []record.Message) error                  { return nil }
func (q *ingress) DeadLetter(context.Context, []record.Refused) error              { return nil }
func (*ingress) Delay(context.Context, []record.Delayed) error                     { return nil }

// sink is a destination that accepts every effect.
type sink struct{}

func (sink) Send(_ context.Context, ds []record.Delivery) []error { return make([]error, len(ds)) }

// faultyStore fails while the test makes it fail.
// groupStore is a store that can list groups.
type groupStore interface {
	record.Store
	record.LogReader
	record.Lister
}

type faultyStore struct {
	groupStore
	away       atomic.Bool
	beforeMark atomic.Pointer[func()] // called once, before a request's token is marked done
}

var errAway = errors.New("internal text: dial tcp 10.0.0.1")

func (s *faultyStore) Load(ctx context.Context, groups []record.GroupKey, tokens []record.TokenKey) ([]record.Group, []record.Token, error) {
	if s.away.Load() {
		return nil, nil, errAway
	}
	return s.groupStore.Load(ctx, groups, tokens)
}

func (s *faultyStore) SwapToken(ctx context.Context, old, next record.Token) (record.Token, error) {
	if next.State == record.Done && next.Reason == "" {
		if do := s.beforeMark.Swap(nil); do != nil {
			(*do)()
		}
	}
	if s.away.Load() {
		return record.Token{}, errAway
	}
	return s.groupStore.SwapToken(ctx, old, next)
}

// ReadLog implements record.LogReader.
func (s *faultyStore) ReadLog(ctx context.Context, r record.LogRange) ([]record.Chunk, error) {
	if s.away.Load() {
		return nil, errAway
	}
	return s.groupStore.ReadLog(ctx, r)
}

// A response is a complete answer that the OpenAPI document allows.
type response struct {
	status int
	header http.Header
	body   string
}

// send makes a request with headers given as "Name: value", and checks the answer against the
// OpenAPI document.
func (w *world) send(method, path, body string, headers ...string) response {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.server.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if body == "" {
		r.Body = http.NoBody
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header[http.CanonicalHeaderKey(name)] = append(r.Header[http.CanonicalHeaderKey(name)], value)
	}
	return w.do(r)
}

func (w *world) do(r *http.Request) response {
	w.t.Helper()
	answer, err := w.server.Client().Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	read, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := w.spec.check(r, answer, read); err != nil {
		w.t.Errorf("%s %s: the answer %d %q is not in the document: %v", r.Method, r.URL, answer.StatusCode, read, err)
	}
	return response{answer.StatusCode, answer.Header, string(read)}
}

// settled waits until the queue has processed all its messages.
func (w *world) settled() { w.queue.working.Wait() }

// applied counts the messages of a group that were committed. A handler may run more often if
// copies of a message are processed at the same time.
func (w *world) applied(stream, group string) uint64 {
	w.t.Helper()
	groups, _, err := w.store.Load(w.t.Context(), []record.GroupKey{{Stream: stream, Group: group}}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return groups[0].Last
}
