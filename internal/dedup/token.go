package dedup

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// IssuedRetention is how long an issued token waits for its message: longer than 14 days in a queue and 14 in its dead-letter queue.
const IssuedRetention = 30 * 24 * time.Hour

// Issue writes the token of a message before the message is put on a queue. fresh says that this call made it. Otherwise the token is as
// found: Issued (the first try may have died before it could enqueue: enqueue again) or Done. Reuse of the identity for another content, and a
// deleted request, are a [*RefusedError]. A one-time request (with a Route) is stored with its token.
func (e *Engine) Issue(ctx context.Context, m Message) (token Token, fresh bool, err error) {
	it := &item{Message: m}
	if _, err := e.admissible(it); err != nil {
		return Token{}, false, err
	}
	next := Token{
		Key: it.token(), State: Issued, Fingerprint: it.print(), Stream: m.Stream, Group: m.GroupName(), Owner: e.cfg.NewID(),
		Expires: e.cfg.Now().Add(IssuedRetention),
	}
	if m.Route != "" {
		next.Request = &m
	}
	found, err := e.cfg.Store.SwapToken(ctx, Token{Key: it.token()}, next)
	switch {
	case err == nil:
		return found, true, nil
	case !errors.Is(err, ErrConflict):
		return Token{}, false, fmt.Errorf("issue token: %w", err)
	}
	if fate, _ := admit(Stream{}, it, found, e.cfg.Now()); fate.Kind == Rejected {
		return found, false, &RefusedError{Reason: fate.Reason, Detail: fate.Detail}
	}
	return found, false, nil
}

// Forget deletes a one-time request: later calls find it deleted. The delete is a commit of the group, so that an attempt that runs at the same time either
// comes first and is finished and forgotten, or loses at the condition and finds the request deleted. A request that is not known is a [*RefusedError].
func (e *Engine) Forget(ctx context.Context, m Message) error {
	it := &item{Message: m}
	s, err := e.admissible(it)
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		err := e.forget(ctx, s, it)
		var refused *RefusedError
		if err == nil || errors.As(err, &refused) || n == maxRounds {
			return err
		}
		if err := e.cfg.Pause(ctx, n); err != nil {
			return err
		}
	}
}

func (e *Engine) forget(ctx context.Context, s Stream, it *item) error {
	p := newPart(it.GroupKey(), s)
	p.items = []*item{it}
	if err := e.load(ctx, []*part{p}); err != nil {
		return err
	}
	old := p.tokens[it.token()]
	if old.State == Absent {
		return &RefusedError{Reason: ReasonUnknown, Detail: "no such request"}
	}
	if _, ok := p.view.entry(it); ok { // it was run: that is finished first, or its publisher would overwrite the tombstone
		return errors.Join(errReload, e.publishGroups(ctx, []GroupKey{p.key})[0])
	}
	pl := &plan{Engine: e, part: p, loaded: p.view, attempt: e.cfg.NewID(), now: e.cfg.Now(), next: p.view.clone()}
	if old.State != Done || old.Reason != ReasonDeleted {
		tombstone := Token{
			Key: it.token(), State: Done, Fingerprint: it.print(), Stream: it.Stream, Group: it.GroupName(), Owner: pl.attempt,
			Reason: ReasonDeleted, Expires: pl.now.Add(s.retention(&it.Message)),
		}
		if _, err := e.cfg.Store.SwapToken(ctx, old, tombstone); err != nil {
			return fmt.Errorf("delete request: %w", err)
		}
	}
	// Whoever read the token before has loaded this version or an older one, and can't commit any more. A tombstone that is there already does not tell that its worker
	// got this far.
	return e.commit(ctx, p, pl)
}

// Refuse puts messages on the dead-letter queue and notes the reason where the message's token is to tell it.
func (e *Engine) Refuse(ctx context.Context, refused []Refused) error {
	if err := e.cfg.Queues.DeadLetter(ctx, refused); err != nil {
		return fmt.Errorf("dead-letter messages: %w", err)
	}
	for _, r := range refused {
		if r.Delivery != nil || r.Reason != ReasonHandler && r.Reason != ReasonAttempts {
			continue // the token is another message's, or there is none to write
		}
		if err := e.note(ctx, r); err != nil {
			e.cfg.Log.Warn("refusal not noted", "stream", r.Message.Stream, "reason", r.Reason, "error", err)
		}
	}
	return nil
}

// note writes the reason into an issued token. A conflict means that the message has moved on; then there is nothing to say.
func (e *Engine) note(ctx context.Context, r Refused) error {
	it := &item{Message: r.Message}
	s, err := e.admissible(it)
	if err != nil || it.byNumber {
		return err
	}
	_, tokens, err := e.cfg.Store.Load(ctx, nil, []TokenKey{it.token()})
	if err != nil {
		return err
	}
	old := tokens[0]
	if _, fresh := admit(s, it, old, e.cfg.Now()); !fresh {
		return nil
	}
	next := old
	next.Key, next.State, next.Fingerprint, next.Stream, next.Group = it.token(), Issued, it.print(), it.Stream, it.GroupName()
	next.Owner, next.Reason, next.Expires = e.cfg.NewID(), r.Reason, e.cfg.Now().Add(IssuedRetention)
	if _, err := e.cfg.Store.SwapToken(ctx, old, next); err != nil && !errors.Is(err, ErrConflict) {
		return err
	}
	return nil
}

// Status of a message as people see it.
type Status string

// The statuses.
const (
	StatusUnknown   Status = "unknown"
	StatusAccepted  Status = "accepted"
	StatusHeld      Status = "held"
	StatusCommitted Status = "committed"
	StatusDone      Status = "done"
	StatusRejected  Status = "rejected"
	StatusDeleted   Status = "deleted"
)

// A State is what Status found out about a message.
type State struct {
	Status Status
	Reason Reason // of StatusRejected
	Group  string
	Reply  *Reply
	Token  Token
}

// Status looks a message up by its identity. A numbered message is named by its source, epoch and sequence, or by the id source/epoch/sequence; its m.Group must be given
// unless it is the default. Other messages' groups are known by their tokens.
func (e *Engine) Status(ctx context.Context, m Message) (State, error) {
	s, ok := e.streams[m.Stream]
	if !ok {
		return State{}, fmt.Errorf("%w: %q", ErrNoStream, m.Stream)
	}
	if s.Admission == BySequence && m.Route == "" && m.Source == "" {
		m.Source, m.Epoch, m.Sequence, ok = parseNumber(m.ID)
		if !ok {
			return State{Status: StatusUnknown}, nil
		}
	}
	it := &item{Message: m}
	if _, err := e.admissible(it); err != nil {
		return State{}, err
	}
	_, tokens, err := e.cfg.Store.Load(ctx, nil, []TokenKey{it.token()})
	if err != nil {
		return State{}, fmt.Errorf("load token: %w", err)
	}
	t := tokens[0]
	if m.Group == "" && t.Group != "" {
		it.Group = t.Group
	}
	st := State{Status: StatusUnknown, Group: it.GroupName(), Token: t, Reply: t.Reply}
	if t.State == Done && t.Reason != ReasonDeleted {
		st.Status = StatusDone
		return st, nil
	}
	if t.Reason == ReasonDeleted {
		st.Status = StatusDeleted
		return st, nil
	}
	groups, _, err := e.cfg.Store.Load(ctx, []GroupKey{it.GroupKey()}, nil)
	if err != nil {
		return State{}, fmt.Errorf("load group: %w", err)
	}
	st.look(&groups[0], it)
	return st, nil
}

// look finds the status of a message that is not done by its token.
func (st *State) look(g *Group, it *item) {
	entry, pending := g.entry(it)
	src := g.Sources[it.SourceKey()]
	switch {
	case pending:
		st.Status, st.Reply = StatusCommitted, entry.Reply
	case it.byNumber && src.Epoch == it.Epoch && src.Held.Contains(it.Sequence):
		st.Status = StatusHeld
	case it.byNumber && src.Epoch == it.Epoch && src.Skipped.Contains(it.Sequence):
		st.Status, st.Reason = StatusRejected, ReasonSkipped
	case it.byNumber && src.Epoch == it.Epoch && it.Sequence < src.Next:
		st.Status = StatusDone
	case st.Token.Reason != "":
		st.Status, st.Reason = StatusRejected, st.Token.Reason
	case st.Token.State != Absent:
		st.Status = StatusAccepted
	}
}

// parseNumber reads source/epoch/sequence.
func parseNumber(id string) (source string, epoch, sequence uint64, ok bool) {
	parts := strings.Split(id, "/")
	if len(parts) < 3 {
		return "", 0, 0, false
	}
	last := len(parts) - 1
	epoch, err1 := strconv.ParseUint(parts[last-1], 10, 64)
	sequence, err2 := strconv.ParseUint(parts[last], 10, 64)
	return strings.Join(parts[:last-1], "/"), epoch, sequence, err1 == nil && err2 == nil
}
