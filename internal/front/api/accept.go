package api

import (
	"net/http"
	"time"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

// postMessage accepts a message: it issues the token, then enqueues the message. A repetition whose
// token is issued and not done is enqueued again, because the first request may have died between
// the two; the engine drops the copy if both arrive.
func (s *server) postMessage(w http.ResponseWriter, r *http.Request) error {
	stream, m, err := s.message(w, r)
	if err != nil {
		return err
	}
	a := answer{message: &m, numbered: stream.Admission == record.BySequence, wait: s.wait(r)}
	if a.wait > 0 {
		leave, err := s.enter()
		if err != nil {
			return err
		}
		defer leave()
	}
	if !a.numbered {
		token, fresh, err := s.Engine.Issue(r.Context(), m)
		if err != nil {
			return refusal(err)
		}
		a.replayed = !fresh
		switch token.State {
		case record.Done:
			return s.repeat(w, &a, token.Reply)
		case record.Leased:
			return s.leased(token)
		case record.Absent, record.Issued:
		}
	}
	if err := s.Queue.Enqueue(r.Context(), m); err != nil {
		return err
	}
	return s.answer(w, r, &a)
}

// answer reports that the message is on the queue or, if the caller waits, its outcome.
func (s *server) answer(w http.ResponseWriter, r *http.Request, a *answer) error {
	if a.wait == 0 {
		return a.accepted(w)
	}
	state := s.await(r, a)
	// if it is numbered: the others were compared when their tokens were issued
	if state.OfOther(a.message) {
		return a.refused(w, rejection(record.ReasonKeyReuse, ""))
	}
	switch state.Status {
	case admission.StatusDone:
		return a.done(w, state.Reply)
	case admission.StatusRejected:
		return a.refused(w, rejection(state.Reason, state.Detail))
	case admission.StatusDeleted:
		return a.refused(w, rejection(record.ReasonDeleted, ""))
	case admission.StatusUnknown, admission.StatusAccepted, admission.StatusHeld, admission.StatusCommitted:
	}
	return a.accepted(w)
}

// repeat answers a message that is done as the first request was answered.
func (s *server) repeat(w http.ResponseWriter, a *answer, reply *record.Reply) error {
	if a.wait == 0 {
		return a.accepted(w)
	}
	return a.done(w, reply)
}

func (s *server) leased(token record.Token) error {
	return &problem.Problem{Type: problem.Leased, RetryAfter: max(time.Second, token.Lease.Sub(s.Now()))}
}
