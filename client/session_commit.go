package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// CommitOptions go with a [Session.Commit]. Zero fields change nothing.
type CommitOptions struct {
	// State replaces the state of the session. It must be JSON; null clears it.
	State json.RawMessage
	// Effects are sent to destinations once the commit is durable.
	Effects []Effect
	// Skip makes the entries dead letters with the reason skipped, because they must never be
	// processed: at most 10,000 in one commit, without State and Effects. Skipped says why, in at
	// most 500 bytes. Next does not return them.
	Skip    bool
	Skipped string
}

// An Effect is a message to a destination.
type Effect struct {
	// To is the name of the destination. Required.
	To string `json:"to"`
	// Group is the group of the effect; its meaning depends on the destination.
	Group string `json:"group,omitempty"`
	// After is how long after the commit the effect is sent, at most 365 days. Defaults to no
	// delay. A delayed effect has no order, and a destination that is ordered by numbers takes
	// none.
	After       time.Duration     `json:"-"`
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	// Body is the body if it is JSON, BodyBase64 any other one.
	Body       json.RawMessage `json:"body,omitempty"`
	BodyBase64 []byte          `json:"body_base64,omitempty"`
}

// plainEffect is an Effect without its methods.
type plainEffect Effect

type effectDocument struct {
	plainEffect
	After string `json:"after,omitempty"`
}

// MarshalJSON returns the effect as a commit takes it, with After as a text.
func (e Effect) MarshalJSON() ([]byte, error) {
	document := effectDocument{plainEffect: plainEffect(e)}
	if e.After != 0 {
		document.After = e.After.String()
	}
	return json.Marshal(document)
}

// UnmarshalJSON reads what MarshalJSON returns.
func (e *Effect) UnmarshalJSON(text []byte) error {
	var document effectDocument
	if err := json.Unmarshal(text, &document); err != nil {
		return err
	}
	*e = Effect(document.plainEffect)
	if document.After == "" {
		return nil
	}
	after, err := time.ParseDuration(document.After)
	if err != nil {
		return fmt.Errorf("after of an effect: %w", err)
	}
	e.After = after
	return nil
}

type commitRequest struct {
	Fence   uint64          `json:"fence"`
	From    uint64          `json:"from"`
	To      uint64          `json:"to"`
	State   json.RawMessage `json:"state,omitempty"`
	Effects []Effect        `json:"effects,omitempty"`
	Skip    bool            `json:"skip,omitempty"`
	Detail  string          `json:"detail,omitempty"`
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

// Commit moves the cursor to a number, and writes state and effects with it in one
// write. It renews the lease.
//
// It returns a [*Problem] of type [Fenced], [Retired], [Moved], [Expired], [Restored] or [Ahead].
// After an [*UnacknowledgedError], and after a [*Problem] that is ambiguous, the outcome is
// unknown. Call Commit again: it repeats the same commit first, which has no further effect if it
// was applied.
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
	s.pending = &commitRequest{Fence: s.opened.Fence, From: s.cursor, To: to, State: o.State, Effects: o.Effects, Skip: o.Skip, Detail: o.Skipped}
	return s.commit(ctx)
}

// commit sends the pending commit.
func (s *Session) commit(ctx context.Context) error {
	_, err := post[struct{}](ctx, s, "commit", s.pending)
	if unknownOutcome(err) {
		return err
	}
	if err == nil {
		if s.pending.Skip && s.pending.From < s.pending.To {
			s.opened.Dead = with(s.opened.Dead, NumberRange{s.pending.From + 1, s.pending.To})
			s.at = max(s.at, s.pending.To)
		}
		if s.cursor = s.pending.To; s.pending.State != nil {
			s.state = s.pending.State
		}
		if string(s.state) == "null" {
			s.state = nil
		}
	}
	s.pending = nil
	return err
}

// unknownOutcome reports whether a call that returned an error may have been applied.
func unknownOutcome(err error) bool {
	if open, ok := errors.AsType[*UnacknowledgedError](err); ok {
		return !open.Unsent
	}
	p, ok := errors.AsType[*Problem](err)
	return ok && p.Ambiguous
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
	began := time.Now() //nolint:forbidigo // only how long ago the server has answered
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
	s.confirmed.Store(began.UnixNano())
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
// It returns the errors of Commit. If the outcome is unknown, the entry may be a dead letter: call
// Fail again with the same number, or open the session again.
func (s *Session) Fail(ctx context.Context, at uint64, detail string) (Failed, error) {
	if s.failed != at {
		s.failed, s.tries = at, 0
	}
	if s.failing == nil || s.failing.At != at {
		s.failing = &failRequest{Fence: s.opened.Fence, At: at, Try: s.tries + 1, Detail: detail}
	}
	out, err := post[Failed](ctx, s, "fail", s.failing)
	if unknownOutcome(err) {
		return out, err
	}
	s.failing = nil
	if err == nil {
		if s.tries = out.Tries; out.Dead {
			s.opened.Dead = with(s.opened.Dead, NumberRange{at, at})
		}
	}
	return out, err
}

type fenceRequest struct {
	Fence uint64 `json:"fence"`
	// Cursor and SkipTo are for retire only.
	Cursor *uint64 `json:"cursor,omitempty"`
	SkipTo *uint64 `json:"skip_to,omitempty"`
}

// Release closes the session, and lets the next consumer have it without waiting for the lease to
// expire. If the outcome of a commit is unknown, it repeats the commit first; [Session.Cursor] says
// whether it was applied. After an error others may have to wait.
func (s *Session) Release(ctx context.Context) error {
	var committed error
	if s.pending != nil {
		committed = s.commit(ctx)
	}
	_, err := post[struct{}](ctx, s, "release", fenceRequest{Fence: s.opened.Fence})
	s.Close()
	if err != nil {
		return errors.Join(committed, err)
	}
	return nil
}

// Renew extends the lease. A session does so in the background while it is open.
func (s *Session) Renew(ctx context.Context) error {
	_, err := post[struct{}](ctx, s, "renew", fenceRequest{Fence: s.opened.Fence})
	return err
}

// Retire closes the session for good, and returns its entries after the cursor to the pool. If the
// consumer keeps its number in a store of its own, cursor must be the number that was read there in
// the statement that raised the fence; if it is nil, the server's cursor counts, which a
// [Client.HeldSession] does not know. It can be repeated.
func (s *Session) Retire(ctx context.Context, cursor *uint64) error {
	if cursor == nil && s.opened.Life == 0 {
		return errors.New("retire: a session that was opened before needs a cursor")
	}
	if cursor == nil {
		at := s.cursor
		cursor = &at
	}
	return s.retire(ctx, fenceRequest{Fence: s.opened.Fence, Cursor: cursor})
}

// RetireSkipping closes the session for good, if the store of its consumer is lost. The entries
// after the server's cursor, up to the number last, become dead letters with the reason skipped:
// it is unknown which of them were processed. Those after last go back to the pool. It can be
// repeated. It returns a [*Problem] of type [Moved] if last is before the cursor, and of type
// [Ahead] if the session has no such entry.
func (s *Session) RetireSkipping(ctx context.Context, last uint64) error {
	return s.retire(ctx, fenceRequest{Fence: s.opened.Fence, SkipTo: &last})
}

func (s *Session) retire(ctx context.Context, r fenceRequest) error {
	if s.pending != nil || s.failing != nil {
		return errors.New("retire: the outcome of an earlier call is unknown: open the session again")
	}
	_, err := post[struct{}](ctx, s, "retire", r)
	if err == nil {
		s.Close()
	}
	return err
}
