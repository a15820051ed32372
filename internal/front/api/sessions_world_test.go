package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/record"
)

// A sessionWorld is a world with the streams work, which has a pool, room, which has logs, and plain.
type sessionWorld struct {
	*world
	mu      sync.Mutex
	now     time.Time
	letters []record.Refused
}

func (w *sessionWorld) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *sessionWorld) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// letterQueues record dead letters.
type letterQueues struct {
	*ingress
	w *sessionWorld
}

func (q letterQueues) DeadLetter(_ context.Context, refused []record.Refused) error {
	q.w.mu.Lock()
	defer q.w.mu.Unlock()
	q.w.letters = append(q.w.letters, refused...)
	return nil
}

// newSessionWorld starts one. change may set options of the sessions.
func newSessionWorld(t *testing.T, change ...func(*session.Config)) *sessionWorld {
	t.Helper()
	w := &sessionWorld{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	w.world = newWorld(t, func(base *world, o *api.Options) {
		base.store.groupStore = memstore.New(w.clock)
		logged := func(name string, partitions uint64) record.Stream {
			return record.Stream{Name: name, Handler: base.handle, Stateless: true, LogRetention: time.Hour, LogMessages: true, Partitions: partitions}
		}
		engine, err := dedup.New(dedup.Config{
			Store: base.store, Queues: letterQueues{base.queue, w}, Appended: base.hub.Appended, Now: w.clock,
			Senders: map[string]record.Sender{"out": sink{}},
			Streams: []record.Stream{logged("work", 2), logged("room", 0), {Name: "plain", Handler: base.handle}},
		})
		if err != nil {
			t.Fatal(err)
		}
		base.engine, base.queue.engine = engine, engine
		cfg := session.Config{
			Pools: map[string]session.Pool{"work": {Partitions: 2, Window: 10, Attempts: 2, DeadLetter: true}}, Records: base.store.Groups,
			Enqueue: func(ctx context.Context, m record.Message) error {
				return base.queue.EnqueueAll(ctx, []record.Message{m})[0]
			},
		}
		for _, c := range change {
			c(&cfg)
		}
		o.Engine, o.Sessions, o.Now = engine, engine.Sessions(base.store, cfg), w.clock
	})
	return w
}

const ann = "/v1/streams/work/sessions/ann"

// fill sends messages with the ids m1, m2, … of one group to a stream.
func (w *sessionWorld) fill(stream string, n int) {
	w.t.Helper()
	for i := range n {
		id := fmt.Sprint("m", i+1)
		r := w.send("POST", "/v1/streams/"+stream+"/messages", `{"item":`+fmt.Sprint(i+1)+`}`, "Idempotency-Key: "+id, "Once-Group: g", "Content-Type: application/json")
		if r.status != 202 {
			w.t.Fatal(r.status, r.body)
		}
		w.settled()
	}
}

// An answered call has the members that tests look at, of answers and of problems.
type answeredCall struct {
	response
	Type, Holder       string
	LastHolder         string `json:"last_holder"`
	Fence, Life, First uint64
	Cursor, Last       *uint64
	RetryAfter         float64 `json:"retry_after"`
	LeaseUntil         string  `json:"lease_until"`
	Entries            []map[string]any
	Next, Detail       string
	End, Ended         bool
	Sessions           []struct{ Name string }
	Pool               json.RawMessage
	State              json.RawMessage
	Takeovers          int
	Retired, Returned  bool
	Dead               json.RawMessage
}

// call makes a call, and returns the members of its answer.
func (w *sessionWorld) call(method, path, body string, headers ...string) answeredCall {
	w.t.Helper()
	a := answeredCall{response: w.send(method, path, body, headers...)}
	if content := a.header.Get("Content-Type"); strings.HasSuffix(content, "json") && content != "application/x-ndjson" && a.body != "" {
		if err := json.Unmarshal([]byte(a.body), &a); err != nil {
			w.t.Fatalf("%v: %s", err, a.body)
		}
	}
	return a
}

// open takes a session, and returns its fence.
func (w *sessionWorld) open(path, take string) uint64 {
	w.t.Helper()
	a := w.call("POST", path, `{"holder":"host-1","take":"`+take+`"}`)
	if a.status != 200 {
		w.t.Fatal(a.status, a.body)
	}
	return a.Fence
}

// entries reads the next entries of a session.
func (w *sessionWorld) entries(path string, fence uint64, query string, headers ...string) answeredCall {
	w.t.Helper()
	return w.call("GET", fmt.Sprint(path, "/entries?fence=", fence, query), "", headers...)
}

// is fails the test unless an answer has a status, and is a problem of a type if one is given.
func (w *sessionWorld) is(a answeredCall, status int, problem string) {
	w.t.Helper()
	_, name, _ := strings.Cut(a.Type, "#")
	if a.status != status || name != problem {
		w.t.Errorf("got %d %s, want %d %s", a.status, a.body, status, problem)
	}
}
