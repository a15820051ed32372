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

// A Consume runs a consumer. It calls w around the work of each entry. from is the decision of a
// person for a store that was lost, or nil.
type Consume func(ctx context.Context, c *client.Client, o client.SessionOptions, from *uint64, w Work) error

// A Place is where a consumer does its work.
type Place struct {
	// Consume runs a consumer of this kind.
	Consume Consume
	// Process runs a consumer in a process of its own, which is killed. By default a consumer that
	// crashes panics.
	Process func(t *testing.T, c Child)
	// Rows returns the ids of the messages that were processed, in this order.
	Rows func(t *testing.T, state State) []string
	// Raise raises the fence in the store, and returns the number there. It is nil if the number is
	// the cursor of the server.
	Raise func(ctx context.Context, o client.Opened) (uint64, error)
	// Lose removes the store. It is nil if there is none beside the server's.
	Lose func(t *testing.T)
	// Tear changes the store of the session a as a crash does that comes in the middle of the
	// write of work and cursor, after the entry with a number. It is nil if the store does such a
	// write whole or not at all.
	Tear func(t *testing.T, number uint64)
	// Locks says that no other process can open the store before the old consumer has closed it.
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
	}{
		{"crash before the work", (*world).crashBeforeWork},
		{"crash after the work and before the cursor", (*world).crashAfterWork},
		{"crash after the cursor before it is reported", (*world).crashAfterCursor},
		{"answer of commit lost", (*world).commitLost},
		{"the old holder still runs and another has opened", (*world).oldHolder},
		{"the consumer never returns and another takes over", (*world).takeover},
		{"the consumer never returns and is retired", (*world).retired},
		{"its cursor is lost with its store and entries are repeated", (*world).storeLost},
		{"its cursor is lost with its store and entries are skipped", (*world).storeSkipped},
		{"the server dies in each of these steps", (*world).serverDies},
	} {
		t.Run(row.fault, func(t *testing.T) {
			row.test(&world{T: t, server: newServer(t), place: newPlace(t)})
		})
	}
}

// Rows is how many rows the table of faults has.
const Rows = 10

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

func (w *world) link() *link { return &link{next: w.server.Transport} }

// crashes runs a consumer that crashes.
func (w *world) crashes(o client.SessionOptions, x Crash) {
	w.Helper()
	c := NewChild(w.server.URL, o, x)
	if w.place.Process != nil {
		w.place.Process(w.T, c)
		return
	}
	defer func() {
		if p := recover(); p != nil && !errors.Is(p.(error), errCrash) {
			panic(p)
		}
	}()
	err := c.run(w.Context(), w.server.Transport, w.place.Consume, func() { panic(errCrash) })
	w.Errorf("the consumer has not crashed: %v", err)
}

var errCrash = errors.New("crash")

// finish runs a consumer until it has processed all messages.
func (w *world) finish(o client.SessionOptions, h hook) *link {
	w.Helper()
	return w.finishAt(o, Messages, h)
}

// finishAt runs a consumer until it waits for entries after a number.
func (w *world) finishAt(o client.SessionOptions, last int, h hook) *link {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	l := w.link()
	l.hook = func(call string, r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if call == "entries" && r.URL.Query().Get("after") == strconv.Itoa(last) && r.URL.Query().Has("wait") {
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
	s, err := w.link().client(w.T, w.server.URL).OpenSession(w.Context(), o)
	if err != nil {
		w.Fatal(err)
	}
	return s
}

func (w *world) crashBeforeWork() {
	w.crashes(w.options("a"), Crash{Before: 5})
	w.finish(w.options("a"), nil)
	w.check()
}

func (w *world) crashAfterWork() {
	w.crashes(w.options("a"), Crash{After: 6})
	if w.place.Tear != nil {
		w.place.Tear(w.T, 6)
	}
	w.finish(w.options("a"), nil)
	w.check()
}

// crashAfterCursor crashes when the commit is to be sent; if the server has the cursor, when it has
// answered.
func (w *world) crashAfterCursor() {
	w.crashes(w.options("a"), Crash{Commit: 2, Sent: w.place.Raise == nil})
	before := len(w.rows())
	l := w.finish(w.options("a"), nil)
	if before != 6 {
		w.Errorf("%d rows before the next holder", before)
	}
	if reads := l.called("commit"); w.place.Raise != nil && (reads != 3 || l.called("open") != 1) { // of 6, 9 and 10
		w.Errorf("%d commits after %d opens", reads, l.called("open"))
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
	old, again := w.link(), make(chan struct{})
	old.hook = nth("open", 2, func(_ string, _ *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		close(again)
		return send()
	})
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
	<-again
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		w.Errorf("the old holder: %v", err)
	}
	w.check()
}

func (w *world) takeover() {
	o := w.options("a")
	o.Lease = 300 * time.Millisecond
	w.crashes(o, Crash{Before: 5})
	o.Holder, o.Take = "two", client.TakeFree
	w.finish(o, nil)
	w.check()
}

// retired retires a session, and has another one consume the rest.
func (w *world) retired() {
	w.crashes(w.options("a"), Crash{Before: 5})
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
	w.finishAt(w.options("b"), Messages-3, nil)
	if rows := w.rows(); !slices.Equal(rows, IDs()) {
		w.Errorf("rows: %v", rows)
	}
}

// storeLost loses the store after 6 messages. Without a decision, nothing is processed.
func (w *world) storeLost() {
	w.crashes(w.options("a"), Crash{Before: 7})
	if w.place.Lose == nil { // state and cursor are one record of the server
		s := w.open("a")
		defer s.Close()
		if rows := w.rows(); s.Opened().Cursor != 6 || !slices.Equal(rows, IDs()[:6]) {
			w.Errorf("the cursor is %d, the rows %v", s.Opened().Cursor, rows)
		}
		return
	}
	w.place.Lose(w.T)
	from := uint64(4)
	if w.place.Raise != nil {
		w.undecided()
		w.from = &from
	} else { // once session from
		s := w.open("a")
		if err := errors.Join(s.Commit(w.Context(), from, client.CommitOptions{}), s.Release(w.Context())); err != nil {
			w.Fatal(err)
		}
	}
	w.finish(w.options("a"), nil)
	if rows := w.rows(); !slices.Equal(rows, IDs()[4:]) {
		w.Errorf("rows: %v", rows)
	}
}

// undecided checks that a consumer of a lost store stops, and also one that would skip entries.
func (w *world) undecided() {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	c := w.link().client(w.T, w.server.URL)
	err := w.place.Consume(ctx, c, w.options("a"), nil, Work{})
	if lost, ok := errors.AsType[*client.LostCursorError](err); !ok || lost.Cursor != 6 {
		w.Fatalf("without a decision: %v", err)
	}
	after := uint64(7)
	err = w.place.Consume(ctx, c, w.options("a"), &after, Work{})
	if skip, ok := errors.AsType[*client.SkipError](err); !ok || skip.Cursor != 6 {
		w.Fatalf("after the last reported entry: %v", err)
	}
}

// storeSkipped loses the store after 6 messages. A person retires the session and skips two more;
// these become dead letters, and another session gets the rest.
func (w *world) storeSkipped() {
	w.crashes(w.options("a"), Crash{Before: 7})
	want := slices.Concat(IDs()[:6], IDs()[8:])
	if w.place.Lose != nil {
		w.place.Lose(w.T)
		want = IDs()[8:]
	}
	s := w.open("a")
	w.last = map[string]json.RawMessage{"a": s.Opened().State}
	if err := s.RetireSkipping(w.Context(), 8); err != nil {
		w.Fatal(err)
	}
	w.finishAt(w.options("b"), 2, nil)
	if rows := w.rows(); !slices.Equal(rows, want) {
		w.Errorf("rows: %v, want %v", rows, want)
	}
	if letters := w.server.Letters(); len(letters) != 2 {
		w.Errorf("dead letters: %v", letters)
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
