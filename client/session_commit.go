package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// CommitOptions go with a [Session.Commit]. Zero fields change nothing.
type CommitOptions struct {
	// State replaces the state of the session. It must be JSON.
	State json.RawMessage
	// Effects are sent to destinations once the commit is durable.
	Effects []Effect
}

// An Effect is a message to a destination.
type Effect struct {
	// To is the name of the destination. Required.
	To string `json:"to"`
	// Group is the group of the effect; its meaning depends on the destination.
	Group       string            `json:"group,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	// Body is the body if it is JSON, BodyBase64 any other one.
	Body       json.RawMessage `json:"body,omitempty"`
	BodyBase64 []byte          `json:"body_base64,omitempty"`
}

type commitRequest struct {
	Fence   uint64          `json:"fence"`
	From    uint64          `json:"from"`
	To      uint64          `json:"to"`
	State   json.RawMessage `json:"state,omitempty"`
	Effects []Effect        `json:"effects,omitempty"`
}

type failRequest struct {
	Fence  uint64 `json:"fence"`
	At     uint64 `json:"at"`
	Try    uint64 `json:"try"`
	Detail string `json:"detail,omitempty"`
}

// ErrUnknownFail says that the outcome of a Fail is unknown: call Fail again, or open the session
// again. The entry may be a dead letter, so it must not be processed.
var ErrUnknownFail = errors.New("the outcome of a fail is unknown")

// Commit moves the cursor from where it is to a number, and writes state and effects with it in one
// write. It renews the lease.
//
// It returns a [*Problem] of type [Fenced], [Retired], [Moved], [Expired] or [Ahead]. After an
// [*UnacknowledgedError] the outcome is unknown. Call Commit again: it repeats the same commit
// first, which has no further effect if it was applied.
func (s *Session) Commit(ctx context.Context, to uint64, o CommitOptions) error {
	if s.failing != nil {
		return fmt.Errorf("commit: %w", ErrUnknownFail)
	}
	if s.pending != nil {
		done := s.pending.To == to
		if err := s.commit(ctx); err != nil || done {
			return err
		}
	}
	s.pending = &commitRequest{Fence: s.opened.Fence, From: s.cursor, To: to, State: o.State, Effects: o.Effects}
	return s.commit(ctx)
}

// commit sends the pending commit.
func (s *Session) commit(ctx context.Context) error {
	_, err := post[struct{}](ctx, s, "commit", s.pending)
	if open, ok := errors.AsType[*UnacknowledgedError](err); ok && !open.Unsent {
		return err
	}
	if err == nil {
		if s.cursor = s.pending.To; s.pending.State != nil {
			s.state = s.pending.State
		}
	}
	s.pending = nil
	return err
}

// post calls the session, until there is an answer.
func post[T any](ctx context.Context, s *Session, what string, document any) (result T, err error) {
	if err := s.lost(); err != nil {
		return result, fmt.Errorf("%s: %w", what, err)
	}
	body, err := json.Marshal(document)
	if err != nil {
		return result, fmt.Errorf("%s: %w", what, err)
	}
	ctx, cancel := s.bind(ctx)
	defer cancel()
	r := request{method: http.MethodPost, url: s.client.at(s.options.path(what)...), header: jsonHeader(), body: body}
	result, err = call(ctx, s.client, r, func(a answer) (out T, p *Problem) {
		if a.status != http.StatusOK && a.status != http.StatusNoContent || a.status == http.StatusOK && json.Unmarshal(a.body, &out) != nil {
			return out, problemOf(a)
		}
		return out, nil
	})
	if err != nil {
		s.lose(err)
		return result, fmt.Errorf("%s: %w", what, err)
	}
	return result, nil
}

// Failed is the result of a failed try.
type Failed struct {
	// Tries counts the failed tries of the entry.
	Tries uint64 `json:"tries"`
	// Dead is true if the entry is a dead letter now: move the cursor past it without processing
	// it.
	Dead bool `json:"dead"`
	// Stop is true if the entry has failed too often, and the consumer has to stop.
	Stop bool `json:"stop"`
}

// Fail reports that a try of the entry with a number has failed, and why. A try is counted once,
// also if the report is repeated.
//
// It returns the errors of Commit. After an [*UnacknowledgedError] the entry may be a dead letter:
// call Fail again with the same number, or open the session again.
func (s *Session) Fail(ctx context.Context, at uint64, detail string) (Failed, error) {
	if s.failed != at {
		s.failed, s.tries = at, 0
	}
	if s.failing == nil || s.failing.At != at {
		s.failing = &failRequest{Fence: s.opened.Fence, At: at, Try: s.tries + 1, Detail: detail}
	}
	out, err := post[Failed](ctx, s, "fail", s.failing)
	if open, ok := errors.AsType[*UnacknowledgedError](err); ok && !open.Unsent {
		return out, err
	}
	s.failing = nil
	if err == nil {
		if s.tries = out.Tries; out.Dead {
			s.opened.Dead = append(slices.Clip(s.opened.Dead), at)
		}
	}
	return out, err
}

type fenceRequest struct {
	Fence uint64 `json:"fence"`
	// Cursor is for retire only.
	Cursor *uint64 `json:"cursor,omitempty"`
}

// Release closes the session, and lets the next consumer have it without waiting for the lease to
// expire.
func (s *Session) Release(ctx context.Context) error {
	_, err := post[struct{}](ctx, s, "release", fenceRequest{Fence: s.opened.Fence})
	s.Close()
	return err
}

// Renew extends the lease. A session does so in the background while it is open.
func (s *Session) Renew(ctx context.Context) error {
	_, err := post[struct{}](ctx, s, "renew", fenceRequest{Fence: s.opened.Fence})
	return err
}

// Retire closes the session for good, and returns its entries after the cursor to the pool. If the
// consumer keeps its number in a store of its own, cursor must be the number that was read there in
// the statement that raised the fence; if it is nil, the server's cursor counts. It can be
// repeated.
func (s *Session) Retire(ctx context.Context, cursor *uint64) error {
	if s.pending != nil || s.failing != nil {
		return errors.New("retire: the outcome of an earlier call is unknown: open the session again")
	}
	if cursor == nil {
		cursor = &s.cursor
	}
	_, err := post[struct{}](ctx, s, "retire", fenceRequest{s.opened.Fence, cursor})
	if err == nil {
		s.Close()
	}
	return err
}
