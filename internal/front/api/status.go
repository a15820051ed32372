package api

import (
	"net/http"
	"unicode/utf8"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

// found is the body that answers a look-up.
type found struct {
	receipt
	Reason record.Reason `json:"reason,omitempty"`
	Detail string        `json:"detail,omitempty"`
	Reply  *storedReply  `json:"reply,omitempty"`
}

// storedReply is a handler's reply; the body is text, or base64 if it is not UTF-8.
type storedReply struct {
	Status     int                 `json:"status"`
	Headers    map[string][]string `json:"headers,omitempty"`
	Body       string              `json:"body,omitempty"`
	BodyBase64 []byte              `json:"body_base64,omitempty"`
}

func newStoredReply(r *record.Reply) *storedReply {
	if r == nil {
		return nil
	}
	view := &storedReply{Status: r.Status, Headers: r.Header}
	if utf8.Valid(r.Body) {
		view.Body = string(r.Body)
	} else {
		view.BodyBase64 = r.Body
	}
	return view
}

// getMessage answers with the status of a message.
func (s *server) getMessage(w http.ResponseWriter, r *http.Request) error {
	m, err := s.addressed(r)
	if err != nil {
		return err
	}
	if stream, _ := s.Engine.Stream(m.Stream); stream.Partitions == 0 { // those have the groups of their senders
		m.Group = r.URL.Query().Get("group")
	}
	state, err := s.lookUp(r, m)
	if err != nil {
		return err
	}
	return tell(w, m, state)
}

// tell answers with the status of a message or of a one-time request.
func tell(w http.ResponseWriter, m record.Message, state admission.State) error {
	view := found{receipt: receipt{ID: m.Identity(), Stream: m.Stream, Group: state.Group, Status: state.Status}, Reason: state.Reason, Detail: state.Detail, Reply: newStoredReply(state.Reply)}
	return writeJSON(w, http.StatusOK, view)
}

// lookUp finds a message; if it is unknown or deleted, it returns a problem.
func (s *server) lookUp(r *http.Request, m record.Message) (admission.State, error) {
	// If no message can have this name, it is as unknown as any other.
	if err := m.Validate(); err != nil {
		return admission.State{}, &problem.Problem{Type: problem.UnknownMessage}
	}
	state, err := s.Engine.Status(r.Context(), m)
	switch {
	case err != nil:
		return state, refusal(err)
	case state.Status == admission.StatusUnknown:
		return state, &problem.Problem{Type: problem.UnknownMessage}
	case state.Status == admission.StatusDeleted:
		return state, &problem.Problem{Type: problem.Deleted}
	}
	return state, nil
}
