package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

// observeFates reports the fates of messages of one stream. took is the time that it took to make them
// durable. Failures are not reported once the caller has disconnected, because that is their cause.
func (s *server) observeFates(ctx context.Context, stream string, took time.Duration, fates []fate) {
	for _, name := range [...]record.EventName{record.EventAccepted, record.EventReplayed, record.EventRefused, record.EventFailed} {
		count := 0
		for i := range fates {
			if fates[i].event() == name {
				count++
			}
		}
		if count == 0 || name == record.EventFailed && errors.Is(ctx.Err(), context.Canceled) {
			continue
		}
		s.Observe(record.Event{Name: name, Stream: stream, Count: count, Age: took})
	}
}

// event returns the event that reports the fate.
func (f *fate) event() record.EventName {
	switch {
	case f.err != nil:
		return eventOf(f.err)
	case f.replayed || f.late:
		return record.EventReplayed
	default:
		return record.EventAccepted
	}
}

// eventOf returns EventFailed for errors of the system, and EventRefused for those of the request.
// The answer to a loop is 508, though the request is at fault.
func eventOf(err error) record.EventName {
	p, refused := errors.AsType[*problem.Problem](err)
	if refused && (p.Type == problem.Loop || p.Type.Status() < http.StatusInternalServerError) {
		return record.EventRefused
	}
	return record.EventFailed
}

// observeError reports that a request was answered with an error, unless the caller has gone. The
// stream is named only if it exists, because callers can make up names.
func (s *server) observeError(r *http.Request, err error) {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		return
	}
	e := record.Event{Name: eventOf(err), Count: 1}
	if name := r.PathValue("stream"); name != "" {
		if stream, known := s.Engine.Stream(name); known {
			e.Stream = stream.Name
		}
	}
	s.Observe(e)
}
