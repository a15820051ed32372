package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/google/uuid"

	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

// randomID returns a random id for a request: if it came from the caller, it might not be unique.
func randomID(*http.Request) string { return uuid.NewString() }

// serve turns errors and panics into problems.
func (s *server) serve(handle handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer s.recovered(w, r)
		if err := handle(s, w, r); err != nil {
			s.fail(w, r, err)
		}
	})
}

func (s *server) recovered(w http.ResponseWriter, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p)
	}
	id, failed := s.RequestID(r), &problem.Problem{Type: problem.Internal}
	s.observeError(r, failed)
	// The value of a panic may hold bodies and secrets; its type and the stack do not.
	s.Log.LogAttrs(r.Context(), slog.LevelError, "request panicked",
		append(named(r, id), slog.String("panic", fmt.Sprintf("%T", p)), slog.String("stack", string(debug.Stack())))...)
	failed.Write(w, instance(id))
}

// fail answers an error. If it is not a problem, a port failed: it is logged here, once, and
// answered without its text.
func (s *server) fail(w http.ResponseWriter, r *http.Request, err error) {
	id := s.RequestID(r)
	s.observeError(r, err)
	s.problem(r, id, err).Write(w, instance(id))
}

// problem returns the problem of an error, and logs it.
func (s *server) problem(r *http.Request, id string, err error) *problem.Problem {
	var p *problem.Problem
	if !errors.As(err, &p) {
		p = &problem.Problem{Type: problem.Unavailable, Detail: "Repeat the request under the same key."}
		s.logFault(r, id, err)
	} else if s.Log.Enabled(r.Context(), slog.LevelDebug) {
		// The detail may repeat what the sender wrote, and an unknown stream is such a text.
		attrs := named(r, id)
		if p.Type != problem.UnknownStream {
			attrs = s.about(r, id)
		}
		s.Log.LogAttrs(r.Context(), slog.LevelDebug, "request refused", append(attrs, slog.String("problem", string(p.Type)))...)
	}
	return p
}

// logFault logs an error, unless the caller has gone.
func (s *server) logFault(r *http.Request, id string, err error) {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		return
	}
	s.Log.LogAttrs(r.Context(), slog.LevelError, "request failed", append(s.about(r, id), record.FailureAttrs(0, err)...)...)
}

// about returns what every line of the log about a request has: its instance, as its problem names
// it, and its message, as far as its path and its headers name one.
func (s *server) about(r *http.Request, id string) []slog.Attr {
	attrs := named(r, id)
	m := record.Message{Stream: r.PathValue("stream"), ID: r.PathValue("id")}
	var err error
	if m.Principal, err = s.Principal(r); err == nil && m.ID == "" {
		m.ID, err = idempotencyKey(r.Header)
	}
	if err != nil || readHeaders(r.Header, &m) != nil || m.Validate() != nil {
		return append(attrs, slog.String("stream", m.Stream))
	}
	return append(attrs, m.LogAttrs(s.LogKeys)...)
}

func named(r *http.Request, id string) []slog.Attr {
	return []slog.Attr{slog.String("instance", instance(id)), slog.String("method", r.Method)}
}

// instance returns the URI of a request id, as RFC 9457 wants.
func instance(id string) string {
	if _, err := uuid.Parse(id); err == nil {
		return "urn:uuid:" + id
	}
	return "urn:once:request:" + id
}

// refusal returns the problem for a refusal of the engine; other errors stay as they are.
func refusal(err error) error {
	var refused *record.RefusedError
	if !errors.As(err, &refused) {
		return err
	}
	return rejection(refused.Reason, refused.Detail)
}

// rejection returns the problem for a reason. Only a handler's own words are passed on as detail.
func rejection(reason record.Reason, detail string) *problem.Problem {
	switch reason {
	case record.ReasonKeyReuse:
		return problem.New(problem.KeyReuse, "This key came with another content before. Send new content under a new key.")
	case record.ReasonEnded:
		return problem.New(problem.Ended, "The stream, or the log of this group, has ended: no further message is processed.")
	case record.ReasonDeleted:
		return &problem.Problem{Type: problem.Deleted}
	case record.ReasonUnknown:
		return &problem.Problem{Type: problem.UnknownMessage}
	case record.ReasonHandler:
		if detail == "" {
			detail = "The handler refused the message and gave no reason."
		}
		return problem.New(problem.Rejected, record.RejectText(detail))
	default:
		return problem.New(problem.Rejected, "The message was rejected: "+string(reason)+".")
	}
}

// isType reports whether an error is a problem of a type.
func isType(err error, t problem.Type) bool {
	var p *problem.Problem
	return errors.As(err, &p) && p.Type == t
}
