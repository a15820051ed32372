package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

// postMessage accepts a message and answers with its receipt or, if the caller waits, with its
// outcome.
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
	began := s.Now()
	f := s.acceptInRoom(r.Context(), stream, m)
	if f.err != nil {
		return f.err
	}
	s.observeFates(r.Context(), stream.Name, s.Now().Sub(began), []fate{f})
	a.replayed, a.direct, a.late = f.replayed, f.direct, f.late
	if f.token.State == record.Done {
		return s.repeat(w, &a, f.token.Reply)
	}
	return s.answer(w, r, &a, f.state)
}

// acceptInRoom is acceptOne, but large bodies wait until there is room for them: a message takes
// several times its size until it is on the queue.
func (s *server) acceptInRoom(ctx context.Context, stream record.Stream, m record.Message) fate {
	leave, err := s.room.body(ctx, len(m.Body))
	if err != nil {
		return fate{err: err}
	}
	defer leave()
	return s.acceptOne(ctx, stream, m)
}

// A fate is what became of a message that a caller sent.
type fate struct {
	// token is the message's token. It is zero on a numbered stream, and if it is unknown.
	token    record.Token
	replayed bool
	// direct says that the message was processed without the queue, with the result state. late
	// says that it is numbered and was processed before.
	direct bool
	late   bool
	state  admission.State
	// err is why the message was not accepted: a *problem.Problem, or an error of a port. After the
	// latter it may have been accepted nevertheless.
	err error
}

// accept makes messages of one stream durable and returns the fate of each. It issues their tokens,
// then enqueues them, all together. No two of the messages have the same identity.
//
// A repetition whose token is issued and not done is enqueued again, because the first request may
// have died between the two; the engine drops the copy if both arrive.
//
// After a message that is to be sent again, no later one of its group is accepted: otherwise it
// would overtake the first. On a numbered stream the numbers keep the order.
func (s *server) accept(ctx context.Context, stream record.Stream, messages []record.Message) []fate {
	if stream.Admission == record.BySequence {
		fates := make([]fate, len(messages))
		s.enqueue(ctx, messages, fates)
		s.enqueued(ctx, stream, messages, fates)
		return fates
	}
	fates := s.issued(ctx, messages)
	keepOrder(messages, fates)
	s.enqueue(ctx, messages, fates)
	s.enqueued(ctx, stream, messages, fates)
	keepOrder(messages, fates)
	return fates
}

// issued issues the tokens of messages and returns the fates that follow from that.
func (s *server) issued(ctx context.Context, messages []record.Message) []fate {
	fates := make([]fate, len(messages))
	for i, issued := range s.Engine.IssueAll(ctx, messages) {
		f := fate{token: issued.Token, replayed: !issued.Fresh, err: refusal(issued.Err)}
		if f.err == nil && f.token.State == record.Leased {
			f.err = s.leased(f.token)
		}
		fates[i] = f
	}
	return fates
}

// enqueue puts the messages on the queue that are neither done nor refused.
func (s *server) enqueue(ctx context.Context, messages []record.Message, fates []fate) {
	open, places := make([]record.Message, 0, len(messages)), make([]int, 0, len(messages))
	for i := range fates {
		if f := &fates[i]; f.err == nil && f.token.State != record.Done {
			open, places = append(open, messages[i]), append(places, i)
		}
	}
	if len(open) == 0 {
		return
	}
	for k, err := range s.put(ctx, open) {
		fates[places[k]].err = err
	}
}

// keepOrder fails the messages behind one of their group that is to be sent again. A message that
// is refused for good stops nothing, because it will not be sent again; and nothing stops one that
// is done.
func keepOrder(messages []record.Message, fates []fate) {
	var stopped map[string]bool
	for i := range fates {
		if fates[i].err == nil && stopped == nil {
			continue
		}
		group := messages[i].GroupName()
		switch f := &fates[i]; {
		case f.err != nil && !again(f.err), f.token.State == record.Done:
		case stopped[group]:
			f.err = &problem.Problem{Type: problem.Unavailable, Detail: behindDetail}
		case f.err != nil:
			if stopped == nil {
				stopped = map[string]bool{}
			}
			stopped[group] = true
		}
	}
}

const behindDetail = "A message of this group before this one was not accepted. Send both again under the same keys, in the same order."

// again reports whether a caller repeats the message after this error.
func again(err error) bool {
	p, refused := errors.AsType[*problem.Problem](err)
	if !refused {
		return err != nil
	}
	if p.Type == problem.Fenced || p.Type == problem.Ended {
		return false
	}
	switch p.Type.Status() {
	case http.StatusConflict, http.StatusTooManyRequests:
		return true
	case http.StatusLoopDetected:
		return false
	}
	return p.Type.Status() >= http.StatusInternalServerError
}

// answer answers a message that is durable: with a receipt or, if the caller waits, with its
// outcome.
func (s *server) answer(w http.ResponseWriter, r *http.Request, a *answer, state admission.State) error {
	if a.wait == 0 {
		return a.accepted(w, state.Status)
	}
	// the reply to a numbered message that was processed before is in its token, if there is one
	if !settled(state.Status) || a.late && state.Status == admission.StatusDone {
		state = s.await(r, a)
	}
	// if it is numbered: the others were compared when their tokens were issued
	if state.OfOther(a.message) {
		return a.refused(w, record.ReasonKeyReuse, "")
	}
	switch state.Status {
	case admission.StatusDone:
		return a.done(w, state.Reply)
	case admission.StatusRejected:
		return a.refused(w, state.Reason, state.Detail)
	case admission.StatusDeleted:
		return a.refused(w, record.ReasonDeleted, "")
	case admission.StatusUnknown, admission.StatusAccepted, admission.StatusHeld, admission.StatusCommitted:
	}
	return a.accepted(w, state.Status)
}

// repeat answers a message that is done as the first request was answered. A refusal is told in any
// case: its caller may have been told so before, or still believes that the message is processed.
func (s *server) repeat(w http.ResponseWriter, a *answer, reply *record.Reply) error {
	if _, _, refused := reply.Refused(); refused || a.wait > 0 {
		return a.done(w, reply)
	}
	return a.accepted(w, admission.StatusDone)
}

func (s *server) leased(token record.Token) error {
	return &problem.Problem{Type: problem.Leased, RetryAfter: max(time.Second, token.Lease.Sub(s.Now()))}
}
