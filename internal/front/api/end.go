package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

// Ends are the ends of streams with pools; *session.Sessions is one.
type Ends interface {
	// EndStream ends a stream: no message is accepted any more. It can be repeated.
	EndStream(ctx context.Context, stream string) error
	// Closed reports whether EndStream has begun.
	Closed(ctx context.Context, stream string) (bool, error)
}

// postEnd ends a stream with a pool. A repetition has the same answer, whatever its key.
func (s *server) postEnd(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.caller(r); err != nil {
		return err
	}
	stream, err := s.stream(r)
	switch {
	case err != nil:
		return err
	case s.Sessions == nil:
		return &problem.Problem{Type: problem.UnknownRoute}
	case stream.Partitions == 0:
		return problem.New(problem.NoPool, fmt.Sprintf("The stream %s has no pool, and only a stream with a pool ends.", stream.Name))
	}
	if err := s.Sessions.EndStream(r.Context(), stream.Name); err != nil {
		return err
	}
	return writeJSON(w, http.StatusAccepted, struct {
		Stream string `json:"stream"`
	}{stream.Name})
}

// closedRetry is the Retry-After of a message that races with the end of its stream.
const closedRetry = time.Second

// enqueued sets the fates of messages that were just put on the queue of a stream: a message is
// accepted only if the stream is open afterwards. If it is closed, the message may be before or
// after the end.
func (s *server) enqueued(ctx context.Context, stream record.Stream, messages []record.Message, fates []fate) {
	if stream.Partitions == 0 || s.Sessions == nil || !slices.ContainsFunc(fates, fate.queued) {
		return
	}
	closed, err := s.Sessions.Closed(ctx, stream.Name)
	for i := range fates {
		if f := &fates[i]; f.queued() && (closed || err != nil) {
			if f.err = err; err == nil {
				f.err = s.place(ctx, messages[i])
			}
		}
	}
}

// place returns nil if a message of a closed stream is in its log, so that it was accepted. As long
// as its partition has no end yet, the sender has to repeat it.
//
// A look that finds the end and not the message is not enough: the message may have been cleared
// from the record of its group before the look, and after the look had read its token. Its token is
// done by then, so the second look finds that.
func (s *server) place(ctx context.Context, m record.Message) error {
	for range 2 {
		state, err := s.Engine.Status(ctx, m)
		switch {
		case err != nil:
			return err
		case state.Status == admission.StatusDone || state.Status == admission.StatusCommitted || state.Status == admission.StatusRejected && state.Reason.Final():
			return nil
		case !state.Ended:
			return &problem.Problem{
				Type: problem.Unavailable, RetryAfter: closedRetry,
				Detail: "The stream was ended while this message was sent. Send it again under the same key: the answer then tells whether it is before the end.",
			}
		}
	}
	return refusal(&record.RefusedError{Reason: record.ReasonEnded})
}

// queued reports whether the message is on the queue, and not known to be done.
func (f fate) queued() bool { return f.err == nil && f.token.State != record.Done }
