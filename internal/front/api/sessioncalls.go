package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/front/problem"
	handlers "github.com/effectively-once/once/internal/handler"
	"github.com/effectively-once/once/internal/record"
)

// A cursorMove is the body of a commit.
type cursorMove struct {
	Fence   uint64          `json:"fence"`
	From    *uint64         `json:"from"`
	To      *uint64         `json:"to"`
	State   json.RawMessage `json:"state"`
	Effects json.RawMessage `json:"effects"`
	Skip    bool            `json:"skip"`
	Detail  string          `json:"detail"`
}

// commitSession moves the cursor of a session.
func (s *server) commitSession(w http.ResponseWriter, r *http.Request, id session.ID) error {
	var body cursorMove
	if err := readCall(w, r, &body, &body.Fence); err != nil {
		return err
	}
	if body.From == nil || body.To == nil {
		return malformedField("from and to", "must be given: the cursor before and after")
	}
	if body.Detail != "" && !body.Skip {
		return malformedField("detail", "is only for a commit with skip: true: it says why, in the dead letters")
	}
	c := session.Commit{Fence: body.Fence, From: *body.From, To: *body.To, State: body.State, Skip: body.Skip, Detail: body.Detail}
	if string(c.State) == "null" {
		c.State = []byte{} // without state, it stays as it is
	}
	effects, err := handlers.DecodeMessages(body.Effects, s.Now())
	if err != nil {
		return problem.New(problem.MalformedRequest, err.Error()+".")
	}
	c.Effects = effects
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
	if err := readCall(w, r, &body, &body.Fence); err != nil {
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
	if err := readCall(w, r, &body, &body.Fence); err != nil {
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
	if err := readCall(w, r, &body, &body.Fence); err != nil {
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

// retireSession closes a session for good. The cursor has no default: that of the session would
// repeat the entries that a consumer with a store of its own has processed and not yet reported.
func (s *server) retireSession(w http.ResponseWriter, r *http.Request, id session.ID) error {
	var body retirement
	if err := readCall(w, r, &body, &body.Fence); err != nil {
		return err
	}
	if (body.Cursor == nil) == (body.SkipTo == nil) {
		return malformedField("cursor", "or skip_to must be given, and not both. Raise the fence in the consumer's store and give the number that is there; if the consumer keeps none, give the cursor that open returned; if its store is lost, give skip_to: the entries up to that number become dead letters")
	}
	if err := s.Sessions.Retire(r.Context(), id, session.Retirement{Fence: body.Fence, Cursor: body.Cursor, SkipTo: body.SkipTo}); err != nil {
		return sessionProblem(err)
	}
	return writeJSON(w, http.StatusOK, struct{}{})
}

// readDocument reads a body that is one JSON object. Unknown names are errors: a misspelt cursor
// would be one that was not given.
func readDocument(w http.ResponseWriter, r *http.Request, v any) error {
	body, err := readBody(w, r, record.SmallBody)
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
	allowed := members(reflect.TypeOf(v).Elem())
	if err != nil {
		// The decoder has no type for this error.
		if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
			return problem.New(problem.MalformedRequest, fmt.Sprintf("unknown member %.80s. The members of this call are %s.", name, allowed))
		}
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return problem.New(problem.MalformedRequest, "The body is empty. It must be one JSON object; the members of this call are "+allowed+".")
	}
	return problem.New(problem.MalformedRequest, "The body must be one JSON object; the members of this call are "+allowed+".")
}

// readCall reads the body of a call of a session that is open. Without the fence, which v has, it
// is no call of any consumer.
func readCall(w http.ResponseWriter, r *http.Request, v any, fence *uint64) error {
	if err := readDocument(w, r, v); err != nil {
		return err
	}
	return given(*fence)
}

// given returns the problem for a fence that is missing.
func given(fence uint64) error {
	if fence == 0 {
		return malformedField("fence", "must be given: the one that open returned")
	}
	return nil
}

// members lists the members of a JSON object.
func members(object reflect.Type) string {
	names := make([]string, object.NumField())
	for i := range names {
		names[i], _, _ = strings.Cut(object.Field(i).Tag.Get("json"), ",")
	}
	return strings.Join(names, ", ")
}

func malformedField(name, rule string) error {
	return problem.New(problem.MalformedRequest, name+" "+rule+".")
}
