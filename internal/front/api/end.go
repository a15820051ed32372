package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

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

// closedRetry is after what time a sender asks again for a message that met the end of its stream.
const closedRetry = time.Second

// open returns an error if a stream has been closed. It is called after messages were put on the
// queue: only if the stream is open then, they are before its end. If it is closed, they may be
// before or after it, and the repetition is answered by the token, which the worker marks.
func (s *server) open(ctx context.Context, stream record.Stream) error {
	if stream.Partitions == 0 || s.Sessions == nil {
		return nil
	}
	closed, err := s.Sessions.Closed(ctx, stream.Name)
	if closed {
		err = &problem.Problem{
			Type: problem.Unavailable, RetryAfter: closedRetry,
			Detail: "The stream was ended while this message was sent. Send it again under the same key: the answer then tells whether it is before the end.",
		}
	}
	return err
}

// enqueued sets the fates of messages that were just put on the queue of a stream.
func (s *server) enqueued(ctx context.Context, stream record.Stream, fates []fate) {
	put := false
	for i := range fates {
		put = put || fates[i].queued()
	}
	if !put {
		return
	}
	err := s.open(ctx, stream)
	for i := range fates {
		if fates[i].queued() {
			fates[i].err = err
		}
	}
}

// queued reports whether the message is on the queue, and not known to be done.
func (f *fate) queued() bool { return f.err == nil && f.token.State != record.Done }
