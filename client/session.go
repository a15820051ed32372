package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// Take says when [Client.OpenSession] may take a session from its holder.
type Take string

// When a session may be taken.
const (
	TakeFree Take = "free" // if it is released, or its lease has expired
	TakeMine Take = "mine" // also from an earlier open of the same holder
	TakeNow  Take = "now"  // always
)

// SessionOptions configure a [Session]. Zero fields take the defaults in their comments.
type SessionOptions struct {
	// Stream and Name are required. Name names the reader: its cursor belongs to the name, and
	// survives its consumers.
	Stream string
	Name   string
	// Group is the group whose log the session reads. Defaults to none: the session reads the part
	// of the stream's pool that is dealt to it.
	Group string
	// Holder names the consumer. With a name that stays the same across restarts and that no other
	// process uses, [TakeMine] continues after a crash without waiting for the lease to expire.
	// Defaults to a random name.
	Holder string
	// Take defaults to [TakeFree].
	Take Take
	// Lease is how long other consumers wait after this one has crashed. The session renews it
	// while it is open. Defaults to 30 seconds.
	Lease time.Duration
	// Max is how many entries Next returns at most. Defaults to 1,000, at most 10,000.
	Max int
	// Wait is how long the server should wait for an entry if there is none. Defaults to 20
	// seconds, which is also the longest that a server waits.
	Wait time.Duration

	// OnCommit is called by [Client.Consume] when it has moved the cursor past entries that were
	// processed: how many, and the number of the last one. Defaults to nothing, as those below.
	OnCommit func(entries int, number uint64)
	// OnDeadLetter is called by [Client.Consume] when an entry has become a dead letter: after how
	// many failed tries, and with the error of the last one.
	OnDeadLetter func(e *Entry, tries uint64, err error)
	// OnRelease is called by [Client.Consume] when it has released the session, or has failed to:
	// then others have to wait until the lease expires.
	OnRelease func(err error)
}

func (o SessionOptions) withDefaults() SessionOptions {
	if o.Holder == "" {
		o.Holder = uuid.NewString()
	}
	o.Take = cmp.Or(o.Take, TakeFree)
	if o.Lease <= 0 {
		o.Lease = 30 * time.Second
	}
	if o.Max <= 0 {
		o.Max = 1000
	}
	if o.Wait <= 0 {
		o.Wait = 20 * time.Second
	}
	if o.OnCommit == nil {
		o.OnCommit = func(int, uint64) {}
	}
	if o.OnDeadLetter == nil {
		o.OnDeadLetter = func(*Entry, uint64, error) {}
	}
	if o.OnRelease == nil {
		o.OnRelease = func(error) {}
	}
	return o
}

// Opened is the state of a session when it was opened.
type Opened struct {
	// Stream, Group and Name are those of the options.
	Stream string `json:"-"`
	Group  string `json:"-"`
	Name   string `json:"-"`
	// Fence is higher than in every earlier open of the session. A consumer with a store of its own
	// raises the fence in that store to it, and reads its number in the same statement.
	Fence uint64 `json:"fence"`
	// Life names the life of the session's name: after a retire, the name begins a new one, and the
	// numbers begin at 1 again.
	Life uint64 `json:"life"`
	// Cursor is the last number that was reported as processed.
	Cursor uint64 `json:"cursor"`
	// Dead are the numbers that are dead letters, in rising order: pass them without processing
	// them.
	Dead []NumberRange `json:"dead"`
	// First and Last are the numbers that were dealt and can still be read; both are 0 for the log
	// of a group.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// Ended is true if the number after Last is the end.
	Ended bool `json:"ended"`
	// Tries counts the failed tries of the entry after the cursor.
	Tries uint64 `json:"tries"`
	// At is the number of the entry that Tries is about.
	At uint64 `json:"at,omitempty"`
	// LeaseUntil is when the lease expires, unless it is renewed.
	LeaseUntil time.Time `json:"lease_until"`
	// State is the state of the last [Session.Commit] that had one, as JSON.
	State json.RawMessage `json:"state,omitempty"`
}

// Identity names an entry of the session for other systems, see [Batch.Identity].
func (o *Opened) Identity(number uint64) string {
	return o.identity() + strconv.FormatUint(number, 10)
}

// Start returns the number after which a consumer with a store of its own begins. number is the one
// in its store, 0 if it has none. from is the decision of a person for a store that was lost, or
// nil; it counts only if the store has no number.
//
// It returns a [*LostCursorError] if the store has no number although entries were processed, and
// there is no decision; and a [*SkipError] if from is after the last processed entry.
func (o *Opened) Start(number uint64, from *uint64) (uint64, error) {
	switch {
	case number > 0:
		return number, nil
	case from != nil && *from > o.Cursor:
		return 0, &SkipError{From: *from, Cursor: o.Cursor}
	case from != nil:
		return *from, nil
	case o.Cursor > 0 && !covers(o.Dead, 0, o.Cursor): // dead letters leave nothing in a store
		return 0, &LostCursorError{Cursor: o.Cursor}
	}
	return 0, nil
}

// A Session is a named reader that this consumer has opened. Each of its entries is processed once:
// a consumer that another one has replaced can't move the cursor any more.
//
// While a session is open, it renews its lease in the background. If another consumer opens it,
// every method returns a [*Problem] of type [Fenced], and [Session.Context] ends. Its methods are
// for one goroutine.
//
// [Client.Consume] does all steps in the right order. A consumer that does them itself has these
// rules:
//
//   - If it keeps its number in a store of its own, it raises the fence there and reads the number in
//     one statement, then calls [Session.Continue] with the number.
//   - If the outcome of a transaction in its store is unknown, it opens the session again before
//     anything else.
//   - If the outcome of Fail is unknown, it calls Fail again or opens the session again. It must not
//     process the entry.
//   - After [Moved] it opens the session again.
type Session struct {
	client  *Client
	options SessionOptions
	opened  Opened
	ctx     context.Context // ends when the session is closed or fenced
	end     context.CancelCauseFunc
	workers sync.WaitGroup
	// confirmed is when the last request began whose answer says that the session is held, in
	// nanoseconds of the wall clock: it runs on while the machine sleeps.
	confirmed atomic.Int64

	at      uint64 // the last number that Next returned
	ended   bool   // nothing follows at
	ahead   *ahead // the request for the entries after at, if there is one
	cursor  uint64 // the last number that the server has acknowledged
	state   json.RawMessage
	pending *commitRequest
	failing *failRequest // its outcome is unknown
	tries   uint64       // failed tries of the entry failed
	failed  uint64
}

// OpenSession opens a session; it is created if there is none. It returns a [*Problem] of type
// [Held] if another consumer holds it, with [Problem.Holder] and [Problem.RetryAfter], and one of
// type [Ended] if the stream has ended and nothing is left for a new session. Call
// [Session.Release] or [Session.Close] in the end.
//
// Each open has a fence of its own: an earlier Session with the same name is fenced, also one of
// the same process. After an [*UnacknowledgedError] the session may be open: open it again with
// [TakeMine] and the same holder, or others wait until the lease expires.
func (c *Client) OpenSession(ctx context.Context, o SessionOptions) (*Session, error) {
	o = o.withDefaults()
	if o.Stream == "" || o.Name == "" {
		return nil, errors.New("open session: stream and name must not be empty")
	}
	began := time.Now() //nolint:forbidigo // only how long ago the server has answered
	opened, err := c.open(ctx, &o)
	if p, ok := errors.AsType[*Problem](err); ok && p.Type == Held && p.Ambiguous && p.Holder == o.Holder && o.Take == TakeFree {
		// An earlier try has opened it, and its answer was lost.
		mine := o
		mine.Take = TakeMine
		opened, err = c.open(ctx, &mine)
	}
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	opened.Stream, opened.Group, opened.Name = o.Stream, o.Group, o.Name
	if string(opened.State) == "null" {
		opened.State = nil
	}
	s := &Session{client: c, options: o, opened: opened, at: opened.Cursor, cursor: opened.Cursor, state: opened.State, tries: opened.Tries, failed: opened.At}
	if s.failed == 0 {
		s.failed = opened.Cursor + 1
	}
	s.confirmed.Store(began.UnixNano())
	s.ctx, s.end = context.WithCancelCause(context.WithoutCancel(ctx))
	s.workers.Go(s.renew)
	return s, nil
}

func (c *Client) open(ctx context.Context, o *SessionOptions) (Opened, error) {
	body, err := json.Marshal(struct {
		Holder string `json:"holder"`
		Take   Take   `json:"take"`
		Lease  string `json:"lease"`
	}{o.Holder, o.Take, o.Lease.String()})
	if err != nil {
		return Opened{}, err
	}
	return call(ctx, c, request{method: http.MethodPost, url: c.at(o.path()...), header: jsonHeader(), body: body}, readOpened)
}

func readOpened(a answer) (o Opened, p *Problem) {
	if a.status != http.StatusOK || json.Unmarshal(a.body, &o) != nil || o.Fence == 0 || o.Life == 0 {
		return Opened{}, problemOf(a)
	}
	return o, nil
}

func jsonHeader() http.Header { return http.Header{"Content-Type": {"application/json"}} }

// path returns the segments of the session's URL, and those of a call of it.
func (o *SessionOptions) path(rest ...string) []string {
	path := []string{"streams", o.Stream}
	if o.Group != "" {
		path = append(path, "groups", o.Group)
	}
	return append(append(path, "sessions", o.Name), rest...)
}

// Opened returns the state of the session when it was opened.
func (s *Session) Opened() Opened { return s.opened }

// Cursor returns the last number that the server has acknowledged as processed.
func (s *Session) Cursor() uint64 { return s.cursor }

// Context returns a context that ends when the session is closed, or when the server reports that
// another consumer has opened it or that it is retired. Its cause is the problem then. Do the work
// under it: a consumer that was replaced stops early.
func (s *Session) Context() context.Context { return s.ctx }

// ErrSessionClosed says that a [Session] is closed.
var ErrSessionClosed = errors.New("the session is closed")

// Close stops renewing the lease. It does not release the session: another consumer has to wait
// until the lease expires.
func (s *Session) Close() {
	s.end(ErrSessionClosed)
	s.workers.Wait()
}

// renew renews the lease until the session is closed or lost.
func (s *Session) renew() {
	for pause(s.ctx, s.options.Lease/3) == nil {
		if err := s.Renew(s.ctx); err != nil && s.ctx.Err() == nil {
			s.client.options.OnRetry(err, s.options.Lease/3)
		}
	}
}

// confirm asks the server whether the session is still held, if it has not said so for half a
// lease. A process that was stopped, or whose machine slept, may have entries that another consumer
// has processed since.
func (s *Session) confirm(ctx context.Context) error {
	since := time.Duration(time.Now().UnixNano() - s.confirmed.Load()) //nolint:forbidigo // how long ago the server has answered
	if since >= 0 && since < s.options.Lease/2 {
		return nil
	}
	return s.Renew(ctx)
}

// lose ends the session if an error says that it is lost.
func (s *Session) lose(err error) {
	if errors.Is(err, Fenced) || errors.Is(err, Retired) {
		s.end(err)
	}
}

// bind returns a context that also ends with the session.
func (s *Session) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })
	return ctx, func() { stop(); cancel(nil) }
}

// lost returns why the session has ended.
func (s *Session) lost() error {
	if s.ctx.Err() == nil {
		return nil
	}
	return context.Cause(s.ctx)
}
