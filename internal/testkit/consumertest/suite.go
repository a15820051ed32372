package consumertest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
)

// A Place is where a consumer does its work.
type Place struct {
	// Consume runs a consumer of this kind. It calls w around the work of each entry.
	Consume func(ctx context.Context, c *client.Client, o client.SessionOptions, from *uint64, w Work) error
	// Rows returns the ids of the messages that were processed, in this order.
	Rows func(t *testing.T, state State) []string
	// Raise raises the fence in the store, and returns the number there. It is nil if the number is
	// the cursor of the server.
	Raise func(ctx context.Context, o client.Opened) (uint64, error)
	// Lose removes the store.
	Lose func(t *testing.T)
	// Locks says that nobody else can open the store before the old consumer has closed it.
	Locks bool
}

// State returns the state of a session.
type State func(session string) json.RawMessage

// Work is called around the work of an entry. It may block, or panic: that is a crash.
type Work struct{ Before, After func(e *client.Entry) }

// A world is one test.
type world struct {
	*testing.T
	server Server
	place  Place
	from   *uint64
	last   map[string]json.RawMessage // states of retired sessions
}

func (w *world) rows() []string {
	w.Helper()
	return w.place.Rows(w.T, func(session string) json.RawMessage {
		if state, retired := w.last[session]; retired {
			return state
		}
		s := w.open(session)
		if err := s.Release(w.Context()); err != nil {
			w.Fatal(err)
		}
		return s.Opened().State
	})
}

// Run runs the table of faults. newServer and newPlace return new ones.
func Run(t *testing.T, newServer func(t *testing.T) Server, newPlace func(t *testing.T) Place) {
	t.Helper()
	for _, row := range []struct {
		fault string
		test  func(w *world)
		own   bool // only if the number is in a store of its own
	}{
		{"crash before the work", (*world).crashBeforeWork, false},
		{"crash after the work and before the cursor", (*world).crashAfterWork, false},
		{"crash after the cursor before it is reported", (*world).crashAfterCursor, false},
		{"answer of commit lost", (*world).commitLost, false},
		{"the old holder still runs and another has opened", (*world).oldHolder, false},
		{"the consumer never returns and another takes over", (*world).takeover, false},
		{"the consumer never returns and is retired", (*world).retired, false},
		{"its cursor is lost with its store", (*world).storeLost, true},
		{"the server dies in each of these steps", (*world).serverDies, false},
	} {
		place := newPlace(t)
		if row.own && place.Raise == nil {
			continue
		}
		t.Run(row.fault, func(t *testing.T) {
			row.test(&world{T: t, server: newServer(t), place: place})
		})
	}
}

// IDs returns the ids of all messages.
func IDs() (ids []string) {
	for n := range Messages {
		ids = append(ids, fmt.Sprintf("m%02d", n+1))
	}
	return ids
}

func (w *world) options(name string) client.SessionOptions {
	return client.SessionOptions{Stream: cmp.Or(w.server.Stream, "work"), Name: name, Holder: "one", Take: client.TakeMine, Max: 3, Wait: time.Second}
}

func (w *world) link(h hook) *link { return &link{next: w.server.Transport, hook: h} }

// at returns a function that calls f for the entry with a number, once.
func at(number uint64, f func()) func(*client.Entry) {
	done := false
	return func(e *client.Entry) {
		if e.Number == number && !done {
			done = true
			f()
		}
	}
}

func crash() { panic(errCrash) }

var errCrash = errors.New("crash")

// crashes runs a consumer that crashes.
func (w *world) crashes(o client.SessionOptions, l *link, work Work) {
	w.Helper()
	defer func() {
		if p := recover(); p != nil && !errors.Is(p.(error), errCrash) {
			panic(p)
		}
	}()
	err := w.place.Consume(w.Context(), l.client(w.T, w.server.URL), o, w.from, work)
	w.Errorf("the consumer has not crashed: %v", err)
}

// finish runs a consumer until it has processed all messages.
func (w *world) finish(o client.SessionOptions, h hook) *link {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	l := w.link(nil)
	l.hook = func(call string, r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if call == "entries" && r.URL.Query().Get("after") == strconv.Itoa(Messages) && r.URL.Query().Has("wait") {
			cancel()
		}
		if h == nil {
			return send()
		}
		return h(call, r, send)
	}
	err := w.place.Consume(ctx, l.client(w.T, w.server.URL), o, w.from, Work{})
	if !errors.Is(err, context.Canceled) {
		w.Fatalf("consume: %v", err)
	}
	return l
}

// check fails the test if not every message was processed once, in order, and reported.
func (w *world) check() {
	w.Helper()
	if rows := w.rows(); !slices.Equal(rows, IDs()) {
		w.Errorf("rows: %v", rows)
	}
	s := w.open("a")
	defer s.Close()
	if s.Opened().Cursor != Messages {
		w.Errorf("the cursor is %d", s.Opened().Cursor)
	}
}

// open opens a session by force.
func (w *world) open(name string) *client.Session {
	w.Helper()
	o := w.options(name)
	o.Take, o.Holder = client.TakeNow, "operator"
	s, err := w.link(nil).client(w.T, w.server.URL).OpenSession(w.Context(), o)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func (w *world) crashBeforeWork() {
	w.crashes(w.options("a"), w.link(nil), Work{Before: at(5, crash)})
	w.finish(w.options("a"), nil)
	w.check()
}

func (w *world) crashAfterWork() {
	w.crashes(w.options("a"), w.link(nil), Work{After: at(6, crash)})
	w.finish(w.options("a"), nil)
	w.check()
}

// crashAfterCursor crashes when the commit is to be sent; if the server has the cursor, when it has
// answered.
func (w *world) crashAfterCursor() {
	w.crashes(w.options("a"), w.link(nth("commit", 2, func(_ string, _ *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if w.place.Raise == nil {
			discard(send)
		}
		panic(errCrash)
	})), Work{})
	before := len(w.rows())
	l := w.finish(w.options("a"), nil)
	if before != 6 {
		w.Errorf("%d rows before the next holder", before)
	}
	if reads := l.called("commit"); w.place.Raise != nil && reads != 3 { // of 6, 9 and 10
		w.Errorf("%d commits", reads)
	}
	w.check()
}

func (w *world) commitLost() {
	l := w.finish(w.options("a"), nth("commit", 2, func(_ string, _ *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		discard(send)
		return nil, errCut
	}))
	if l.called("open") != 1 || l.called("commit") != 5 {
		w.Errorf("%d opens and %d commits", l.called("open"), l.called("commit"))
	}
	w.check()
}

// oldHolder stops a consumer in the middle of its work, and lets it go on when another one has done
// everything; or, if the store keeps the other one out, when that has opened.
func (w *world) oldHolder() {
	ctx, cancel := context.WithCancel(w.Context())
	stopped, resume, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	old := w.link(nil)
	c := old.client(w.T, w.server.URL)
	mine := w.options("a")
	mine.Lease = time.Second // is renewed in the background, which ends the old one's transaction
	go func() {
		ended <- w.place.Consume(ctx, c, mine, nil, Work{Before: at(5, func() { close(stopped); <-resume })})
	}()
	<-stopped
	o := w.options("a")
	o.Holder, o.Take = "two", client.TakeNow
	w.finish(o, nth("open", 1, func(_ string, _ *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		resp, err := send()
		if w.place.Locks {
			close(resume)
		}
		return resp, err
	}))
	if !w.place.Locks {
		close(resume)
	}
	// The old one is told that it is fenced, and waits until the session is free.
	for old.called("open") < 2 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		w.Errorf("the old holder: %v", err)
	}
	w.check()
}

func (w *world) takeover() {
	o := w.options("a")
	o.Lease = 300 * time.Millisecond
	w.crashes(o, w.link(nil), Work{Before: at(5, crash)})
	o.Holder, o.Take = "two", client.TakeFree
	w.finish(o, nil)
	w.check()
}

// retired gives the rest of a session to another one.
func (w *world) retired() {
	w.crashes(w.options("a"), w.link(nil), Work{Before: at(5, crash)})
	s := w.open("a")
	var cursor *uint64
	if w.place.Raise != nil {
		number, err := w.place.Raise(w.Context(), s.Opened())
		if err != nil {
			w.Fatal(err)
		}
		cursor = &number
	}
	if err := s.Retire(w.Context(), cursor); err != nil {
		w.Fatal(err)
	}
	w.last = map[string]json.RawMessage{"a": s.Opened().State}
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	l := w.link(func(call string, r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if call == "entries" && r.URL.Query().Get("after") == strconv.Itoa(Messages-3) && r.URL.Query().Has("wait") {
			cancel()
		}
		return send()
	})
	if err := w.place.Consume(ctx, l.client(w.T, w.server.URL), w.options("b"), nil, Work{}); !errors.Is(err, context.Canceled) {
		w.Fatal(err)
	}
	if rows := w.rows(); !slices.Equal(rows, IDs()) {
		w.Errorf("rows: %v", rows)
	}
}

// storeLost loses the store after 6 messages. Without a decision, nothing is processed.
func (w *world) storeLost() {
	w.crashes(w.options("a"), w.link(nil), Work{Before: at(7, crash)})
	w.place.Lose(w.T)
	err := w.place.Consume(w.Context(), w.link(nil).client(w.T, w.server.URL), w.options("a"), nil, Work{})
	if lost, ok := errors.AsType[*client.LostCursorError](err); !ok || lost.Cursor != 6 {
		w.Fatalf("without a decision: %v", err)
	}
	from := uint64(4)
	w.from = &from
	w.finish(w.options("a"), nil)
	if rows := w.rows(); !slices.Equal(rows, IDs()[4:]) {
		w.Errorf("rows: %v", rows)
	}
}

// serverDies kills the server before and after each call of a consumer.
func (w *world) serverDies() {
	var count, restart sync.Mutex // the consumer renews its lease beside its other calls
	calls := map[string]int{}
	w.finish(w.options("a"), func(call string, _ *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		count.Lock()
		calls[call]++
		n := calls[call]
		count.Unlock()
		if call == "renew" || call == "entries" && n > 4 || call != "entries" && n > 2 {
			return send()
		}
		if n%2 == 0 {
			discard(send)
		}
		restart.Lock()
		defer restart.Unlock()
		w.server.Restart()
		return nil, errCut
	})
	w.check()
}
