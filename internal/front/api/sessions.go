package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

// Sessions are the sessions of streams; *session.Sessions is one.
type Sessions interface {
	Ends
	Open(ctx context.Context, id session.ID, o session.Opening) (session.Opened, error)
	Read(ctx context.Context, id session.ID, r session.Reading) (session.Page, error)
	Commit(ctx context.Context, id session.ID, c session.Commit) error
	Fail(ctx context.Context, id session.ID, f session.Failure) (session.Failed, error)
	Release(ctx context.Context, id session.ID, fence uint64) error
	Renew(ctx context.Context, id session.ID, fence uint64) (time.Time, error)
	Retire(ctx context.Context, id session.ID, r session.Retirement) error
	Describe(ctx context.Context, id session.ID) (session.Description, error)
	List(ctx context.Context, stream, group, after string, limit int) (session.Listing, error)
	DescribePool(ctx context.Context, stream string) (session.PoolDescription, error)
}

// A sessionCall is a call of a session whose name, group and stream are checked.
type sessionCall func(s *server, w http.ResponseWriter, r *http.Request, id session.ID) error

// sessionCalls are the calls below the path of a session, by name.
func sessionCalls() map[string]struct {
	method string
	call   sessionCall
} {
	type entry = struct {
		method string
		call   sessionCall
	}
	return map[string]entry{
		"entries": {http.MethodGet, (*server).sessionEntries},
		"commit":  {http.MethodPost, (*server).commitSession},
		"fail":    {http.MethodPost, (*server).failSession},
		"release": {http.MethodPost, (*server).releaseSession},
		"renew":   {http.MethodPost, (*server).renewSession},
		"retire":  {http.MethodPost, (*server).retireSession},
	}
}

// The paths of sessions: of the pool of a stream, and of the log of a group.
const (
	poolSessions  = "/v1/streams/{stream}/sessions"
	groupSessions = "/v1/streams/{stream}/groups/{group}/sessions"
)

// sessionRoutes lists the routes of sessions.
func sessionRoutes() []route {
	var out []route
	for _, path := range []string{poolSessions, groupSessions} {
		out = append(out,
			route{http.MethodGet, path, (*server).listSessions},
			route{http.MethodPost, path + "/{name}", onSession((*server).openSession)},
			route{http.MethodGet, path + "/{name}", onSession((*server).describeSession)},
		)
		for name, c := range sessionCalls() {
			out = append(out, route{c.method, path + "/{name}/" + name, onSession(c.call)})
		}
	}
	return out
}

// onSession returns a handler that checks who calls, and which session.
func onSession(call sessionCall) handler {
	return func(s *server, w http.ResponseWriter, r *http.Request) error {
		id, err := s.session(r)
		if err != nil {
			return err
		}
		return call(s, w, r, id)
	}
}

// session returns the session that the path names.
func (s *server) session(r *http.Request) (session.ID, error) {
	id, err := s.readable(r)
	if id.Name = r.PathValue("name"); err == nil && !validText(id.Name) {
		return id, problem.New(problem.MalformedRequest, "No session can have this name: it must be 1 to 128 bytes of UTF-8 text without control characters.")
	}
	return id, err
}

// readable returns the pool or log that the path names, as a session without a name.
func (s *server) readable(r *http.Request) (session.ID, error) {
	if _, err := s.caller(r); err != nil {
		return session.ID{}, err
	}
	stream, err := s.stream(r)
	if err != nil {
		return session.ID{}, err
	}
	id := session.ID{Stream: stream.Name, Group: r.PathValue("group")}
	if s.Sessions == nil {
		return id, &problem.Problem{Type: problem.UnknownRoute}
	}
	if id.Group != "" {
		m := record.Message{Stream: stream.Name, ID: "x", Group: id.Group}
		if m.Validate() != nil || m.Placed() {
			return id, problem.New(problem.MalformedRequest, "No group can have this name.")
		}
		return id, s.logged(stream)
	}
	if stream.Partitions == 0 {
		return id, problem.New(problem.NoPool, fmt.Sprintf("The stream %s has no pool. Give it one in the configuration, for example pool: {}; or read the log of one group, at %s/groups/GROUP/sessions/NAME.", stream.Name, "/v1/streams/"+stream.Name))
	}
	return id, nil
}

// maxHolder is the longest name of a session or a holder, in bytes.
const maxHolder = 128

func validText(name string) bool {
	return name != "" && len(name) <= maxHolder && strings.ToValidUTF8(name, "") == name && !strings.ContainsFunc(name, unicode.IsControl)
}

// Bounds of the lease of a session.
const (
	minLease = 100 * time.Millisecond
	maxLease = 24 * time.Hour
)

// An opening is the body of a call that opens a session.
type opening struct {
	Holder string       `json:"holder"`
	Take   session.Take `json:"take"`
	Lease  string       `json:"lease"`
}

// An openedSession is the answer to it.
type openedSession struct {
	Fence      uint64          `json:"fence"`
	Life       uint64          `json:"life"`
	Cursor     uint64          `json:"cursor"`
	Dead       []numberRange   `json:"dead"`
	First      uint64          `json:"first"`
	Last       uint64          `json:"last"`
	Ended      bool            `json:"ended"`
	Tries      uint64          `json:"tries"`
	At         uint64          `json:"at,omitempty"`
	LeaseUntil time.Time       `json:"lease_until"`
	State      json.RawMessage `json:"state,omitempty"`
}

// openSession takes a session for a holder.
func (s *server) openSession(w http.ResponseWriter, r *http.Request, id session.ID) error {
	var body opening
	if err := readDocument(w, r, &body); err != nil {
		return err
	}
	o := session.Opening{Holder: body.Holder, Take: body.Take}
	switch {
	case !validText(o.Holder):
		return malformedField("holder", "must be 1 to 128 bytes of UTF-8 text without control characters: it names the consumer to people")
	case o.Take != "" && o.Take != session.TakeFree && o.Take != session.TakeMine && o.Take != session.TakeNow:
		return malformedField("take", "must be free, mine or now")
	}
	if body.Lease != "" {
		lease, err := time.ParseDuration(body.Lease)
		if err != nil || lease < minLease || lease > maxLease {
			return malformedField("lease", fmt.Sprintf("must be a duration between %s and %s, such as 30s", minLease, maxLease))
		}
		o.Lease = lease
	}
	x, err := s.Sessions.Open(r.Context(), id, o)
	if err != nil {
		return sessionProblem(err)
	}
	return writeJSON(w, http.StatusOK, openedSession{
		Fence: x.Fence, Life: x.Life, Cursor: x.Cursor, Dead: numbers(x.Dead), First: x.First, Last: x.Last, Ended: x.Ended, Tries: x.Tries, At: x.At,
		LeaseUntil: x.LeaseUntil, State: x.State,
	})
}

// A numberRange is a range of numbers of a session.
type numberRange struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

func numbers(ranges record.Ranges) []numberRange {
	out := make([]numberRange, len(ranges))
	for i, r := range ranges {
		out[i] = numberRange{r.First, r.Last}
	}
	return out
}

// A cursorMove is the body of a commit.
type cursorMove struct {
	Fence   uint64          `json:"fence"`
	From    *uint64         `json:"from"`
	To      *uint64         `json:"to"`
	State   json.RawMessage `json:"state"`
	Effects []sessionEffect `json:"effects"`
}

// A sessionEffect is a message to a destination.
type sessionEffect struct {
	To          string            `json:"to"`
	Group       string            `json:"group"`
	ContentType string            `json:"content_type"`
	Headers     map[string]string `json:"headers"`
	Body        json.RawMessage   `json:"body"`
	BodyBase64  []byte            `json:"body_base64"`
}

// effect returns the effect in the engine's form. Without a content type, a body is JSON.
func (x *sessionEffect) effect() (record.Effect, error) {
	f := record.Effect{To: []string{x.To}, Group: x.Group, ContentType: x.ContentType, Headers: x.Headers, Body: x.Body}
	m := record.Message{Stream: "x", ID: "x", Group: x.Group, ContentType: x.ContentType, Headers: x.Headers}
	switch {
	case x.To == "":
		return f, malformedField("effects", "must each have to, the name of a destination")
	case x.Body != nil && x.BodyBase64 != nil:
		return f, malformedField("effects", "must each have body or body_base64")
	case x.BodyBase64 != nil:
		f.Body = x.BodyBase64
	case x.ContentType == "" && x.Body != nil:
		f.ContentType = formatJSON
	}
	return f, invalid(m.Validate())
}

// commitSession moves the cursor of a session.
func (s *server) commitSession(w http.ResponseWriter, r *http.Request, id session.ID) error {
	var body cursorMove
	if err := readDocument(w, r, &body); err != nil {
		return err
	}
	if body.From == nil || body.To == nil {
		return malformedField("from and to", "must be given: the cursor before and after")
	}
	c := session.Commit{Fence: body.Fence, From: *body.From, To: *body.To, State: body.State}
	if string(c.State) == "null" {
		c.State = []byte{} // without state, it stays as it is
	}
	for i := range body.Effects {
		f, err := body.Effects[i].effect()
		if err != nil {
			return err
		}
		c.Effects = append(c.Effects, f)
	}
	if err := s.Sessions.Commit(r.Context(), id, c); err != nil {
		return sessionProblem(err)
	}
	return writeJSON(w, http.StatusOK, struct {
		Cursor uint64 `json:"cursor"`
	}{c.To})
}

// A failure is the body of a report of a failed try.
type failure struct {
	Fence  uint64 `json:"fence"`
	At     uint64 `json:"at"`
	Try    uint64 `json:"try"`
	Detail string `json:"detail"`
}

// failSession counts a failed try of an entry.
func (s *server) failSession(w http.ResponseWriter, r *http.Request, id session.ID) error {
	var body failure
	if err := readDocument(w, r, &body); err != nil {
		return err
	}
	if body.At == 0 {
		return malformedField("at", "must be the number of an entry")
	}
	failed, err := s.Sessions.Fail(r.Context(), id, session.Failure{Fence: body.Fence, At: body.At, Try: body.Try, Detail: body.Detail})
	if err != nil {
		return sessionProblem(err)
	}
	return writeJSON(w, http.StatusOK, struct {
		Tries uint64 `json:"tries"`
		Dead  bool   `json:"dead"`
		Stop  bool   `json:"stop"`
	}{failed.Tries, failed.Dead, failed.Stop})
}

// A claim is the body of a call that needs only the fence.
type claim struct {
	Fence uint64 `json:"fence"`
}

// releaseSession ends the lease of a session.
func (s *server) releaseSession(w http.ResponseWriter, r *http.Request, id session.ID) error {
	var body claim
	if err := readDocument(w, r, &body); err != nil {
		return err
	}
	if err := s.Sessions.Release(r.Context(), id, body.Fence); err != nil {
		return sessionProblem(err)
	}
	return writeJSON(w, http.StatusOK, struct{}{})
}

// renewSession lets the lease of a session run from now on.
func (s *server) renewSession(w http.ResponseWriter, r *http.Request, id session.ID) error {
	var body claim
	if err := readDocument(w, r, &body); err != nil {
		return err
	}
	until, err := s.Sessions.Renew(r.Context(), id, body.Fence)
	if err != nil {
		return sessionProblem(err)
	}
	return writeJSON(w, http.StatusOK, struct {
		LeaseUntil time.Time `json:"lease_until"`
	}{until})
}

// A retirement is the body of a call that closes a session.
type retirement struct {
	Fence  uint64  `json:"fence"`
	Cursor *uint64 `json:"cursor"`
	SkipTo *uint64 `json:"skip_to"`
}

// retireSession closes a session for good. The cursor defaults to that of the session.
func (s *server) retireSession(w http.ResponseWriter, r *http.Request, id session.ID) error {
	var body retirement
	if err := readDocument(w, r, &body); err != nil {
		return err
	}
	if err := s.Sessions.Retire(r.Context(), id, session.Retirement{Fence: body.Fence, Cursor: body.Cursor, SkipTo: body.SkipTo}); err != nil {
		return sessionProblem(err)
	}
	return writeJSON(w, http.StatusOK, struct{}{})
}

// readDocument reads a body that is one JSON object. Unknown names are errors: a misspelt cursor
// would be one that was not given.
func readDocument(w http.ResponseWriter, r *http.Request, v any) error {
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err = d.Decode(v); err == nil {
		if _, more := d.Token(); errors.Is(more, io.EOF) {
			return nil
		}
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return malformedField(wrong.Field, "must be a "+wrong.Type.String())
	}
	return problem.New(problem.MalformedRequest, "The body must be one JSON object with the members of this call.")
}

func malformedField(name, rule string) error {
	return problem.New(problem.MalformedRequest, name+" "+rule+".")
}

// sessionProblem returns the problem for an error of a session; other errors stay as they are.
func sessionProblem(err error) error {
	var (
		held    *session.HeldError
		fenced  *session.FencedError
		moved   *session.MovedError
		expired *session.ExpiredError
		ahead   *session.AheadError
	)
	switch {
	case errors.As(err, &held):
		return &problem.Problem{
			Type: problem.Held, Holder: held.Holder, RetryAfter: held.RetryAfter,
			Detail: "Another consumer holds the session. Open it again when its lease has ended; or with take: mine if you are the same holder; or with take: now to fence the other one.",
		}
	case errors.As(err, &fenced) && fenced.Fence == 0:
		return problem.New(problem.Fenced, "There is no session of this name. Open it first.")
	case errors.As(err, &fenced):
		return &problem.Problem{
			Type: problem.Fenced, Fence: fenced.Fence, Holder: fenced.Holder,
			Detail: "The session was opened again since. Stop the work of this consumer, or open the session again before anything else.",
		}
	case errors.As(err, &moved):
		return &problem.Problem{
			Type: problem.Moved, Cursor: &moved.Cursor,
			Detail: "The cursor is not where this call begins. Open the session again, and go on after the number in your own store.",
		}
	case errors.As(err, &expired):
		p := problem.New(problem.Expired, "Entries after this number can't be read any more. Decide whether to go on at first, which loses those before it.")
		if p.First = expired.First; expired.Again {
			p.Detail = "The log of this group has begun again, so the numbers of this session name other entries. Retire the session and open it again."
		}
		return p
	case errors.As(err, &ahead):
		return &problem.Problem{
			Type: problem.Ahead, Last: &ahead.Last,
			Detail: "The session has no such number in this life. Does your number belong to an earlier life of the session, or was the system restored from an older copy?",
		}
	case errors.Is(err, session.ErrEnded):
		return &problem.Problem{Type: problem.Ended, Status: http.StatusGone, Detail: "The stream has ended, and all its entries are processed: nothing is left for a new session."}
	case errors.Is(err, session.ErrRetired):
		return problem.New(problem.Retired, "The session is closed, and its unread entries belong to others. Open it again for a new life, with numbers from 1.")
	}
	return invalid(err)
}
