package api

import (
	"fmt"
	"net/http"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

// requestRoute is part of every one-time request's fingerprint: if a message has the same key, it
// has another content.
const requestRoute = "POST /v1/streams/{stream}/requests/{id}"

// putRequest stores a one-time request; nothing runs yet.
func (s *server) putRequest(w http.ResponseWriter, r *http.Request) error {
	m, err := s.addressed(r)
	if err != nil {
		return err
	}
	if err := readHeaders(r.Header, &m); err != nil {
		return err
	}
	if err := noDelay(r.Header); err != nil {
		return err
	}
	stream, err := s.stream(r)
	if err != nil {
		return err
	}
	if stream.Partitions > 0 {
		return problem.New(problem.InvalidMessage, "A stream with a pool takes no one-time requests: nothing answers them.")
	}
	if stream.Admission == record.BySequence || m.Source != "" || m.Sequence != 0 || m.Epoch != 0 || m.DependsOn != nil || m.Parents != nil || m.End {
		return problem.New(problem.InvalidMessage, "A one-time request has no number and ends no log: send it to a stream that is not numbered, without source, sequence and end.")
	}
	m.Route = requestRoute
	if err := s.complete(w, r, stream, &m); err != nil {
		return err
	}
	return s.store(w, r, m)
}

func (s *server) store(w http.ResponseWriter, r *http.Request, m record.Message) error {
	token, fresh, err := s.Engine.Issue(r.Context(), m)
	if err != nil {
		return refusal(err)
	}
	if token.State == record.Leased {
		return s.leased(token)
	}
	a := answer{message: &m, replayed: !fresh}
	w.Header()["Location"] = []string{a.location("requests")}
	if fresh {
		return a.receipt(w, http.StatusCreated, admission.StatusAccepted)
	}
	return a.receipt(w, http.StatusOK, admission.StatusAccepted)
}

// request looks a one-time request up. Messages and requests share one space of ids, but if the id
// is a message's, it returns unknown-message.
func (s *server) request(r *http.Request) (record.Message, admission.State, error) {
	m, err := s.addressed(r)
	if err != nil {
		return m, admission.State{}, err
	}
	state, err := s.lookUp(r, m)
	if err != nil {
		return m, state, err
	}
	if state.Token.Request == nil && !state.Token.OfRequest() {
		return m, state, &problem.Problem{Type: problem.UnknownMessage}
	}
	if state.Token.State == record.Leased {
		return m, state, s.leased(state.Token)
	}
	m.Group, m.Route = state.Group, requestRoute
	return m, state, nil
}

// postRequest runs a stored request once, or replays its answer.
func (s *server) postRequest(w http.ResponseWriter, r *http.Request) error {
	m, state, err := s.request(r)
	if err != nil {
		return err
	}
	body, err := readBody(w, r, record.SmallBody)
	if err != nil {
		return err
	}
	if len(body) > 0 {
		return problem.New(problem.MalformedRequest, "The content of a one-time request is stored by PUT; POST has no body.")
	}
	a := answer{message: &m, replayed: true}
	switch state.Status {
	case admission.StatusDone:
		return a.done(w, state.Reply)
	case admission.StatusRejected:
		return a.refused(w, state.Reason, state.Detail)
	default:
	}
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	return s.call(w, r, *state.Token.Request)
}

// call runs a message straight through the engine, without the queue: if it fails, the caller
// repeats it.
func (s *server) call(w http.ResponseWriter, r *http.Request, m record.Message) error {
	outcome := s.Engine.Call(r.Context(), m)
	a := answer{message: &m, replayed: outcome.Kind == record.Duplicate}
	switch outcome.Kind {
	case record.Processed, record.Duplicate:
		return a.done(w, outcome.Reply)
	case record.Rejected:
		return a.refused(w, outcome.Reason, outcome.Detail)
	case record.Retry, record.HeldBack:
	}
	return fmt.Errorf("call engine: %s: %w", outcome.Kind, outcome.Err)
}

// getRequest answers with the status of a one-time request.
func (s *server) getRequest(w http.ResponseWriter, r *http.Request) error {
	m, state, err := s.request(r)
	if err != nil {
		return err
	}
	return tell(w, m, state)
}

// deleteRequest forgets a one-time request and its reply. If it is repeated, the answer is the
// same.
func (s *server) deleteRequest(w http.ResponseWriter, r *http.Request) error {
	m, _, err := s.request(r)
	if err == nil {
		err = refusal(s.Engine.Forget(r.Context(), m))
	}
	if err != nil && !isType(err, problem.Deleted) {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
