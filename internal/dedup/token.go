package dedup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// IssuedRetention is how long an issued token waits for its message: longer than 14 days in a queue and 14 in its dead-letter queue.
const IssuedRetention = 30 * 24 * time.Hour

// Issue writes the token of a message before the message is put on a queue. fresh says that this call made it. Otherwise the token is as
// found: Issued (the first try may have died before it could enqueue: enqueue again) or Done. Reuse of the identity for another content, and a
// deleted request, are a [*RefusedError]. A one-time request (with a Route) is stored with its token.
func (e *Engine) Issue(ctx context.Context, m record.Message) (token record.Token, fresh bool, err error) {
	it := &item{Message: m}
	if _, err := e.admissible(it); err != nil {
		return record.Token{}, false, err
	}
	next := record.Token{
		Key: it.token(), State: record.Issued, Fingerprint: it.print(), Stream: m.Stream, Group: m.GroupName(), Owner: e.cfg.NewID(),
		Expires: e.cfg.Now().Add(IssuedRetention),
	}
	if m.Route != "" {
		next.Request = &m
	}
	found, err := e.cfg.Store.SwapToken(ctx, record.Token{Key: it.token()}, next)
	switch {
	case err == nil:
		return found, true, nil
	case !errors.Is(err, record.ErrConflict):
		return record.Token{}, false, fmt.Errorf("issue token: %w", err)
	}
	if fate, _ := admit(record.Stream{}, it, found, e.cfg.Now()); fate.Kind == record.Rejected {
		return found, false, &record.RefusedError{Reason: fate.Reason, Detail: fate.Detail}
	}
	return found, false, nil
}

// Forget deletes a one-time request: later calls find it deleted. The delete is a commit of the group, so that an attempt that runs at the same time either
// comes first and is finished and forgotten, or loses at the condition and finds the request deleted. A request that is not known is a [*RefusedError].
func (e *Engine) Forget(ctx context.Context, m record.Message) error {
	it := &item{Message: m}
	s, err := e.admissible(it)
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		err := e.forget(ctx, s, it)
		var refused *record.RefusedError
		if err == nil || errors.As(err, &refused) || n == maxRounds {
			return err
		}
		if err := e.cfg.Pause(ctx, n); err != nil {
			return err
		}
	}
}

func (e *Engine) forget(ctx context.Context, s record.Stream, it *item) error {
	p := newPart(it.GroupKey(), s)
	p.items = []*item{it}
	if err := e.load(ctx, []*part{p}); err != nil {
		return err
	}
	old := p.tokens[it.token()]
	if old.State == record.Absent {
		return &record.RefusedError{Reason: record.ReasonUnknown, Detail: "no such request"}
	}
	if _, ok := it.entry(&p.view); ok { // it was run: that is finished first, or its publisher would overwrite the tombstone
		return errors.Join(errReload, e.publishGroups(ctx, []record.GroupKey{p.key})[0])
	}
	pl := &plan{Engine: e, part: p, loaded: p.view, attempt: e.cfg.NewID(), now: e.cfg.Now(), next: p.view.Clone()}
	if old.State != record.Done || old.Reason != record.ReasonDeleted {
		tombstone := record.Token{
			Key: it.token(), State: record.Done, Fingerprint: it.print(), Stream: it.Stream, Group: it.GroupName(), Owner: pl.attempt,
			Reason: record.ReasonDeleted, Expires: pl.now.Add(s.RetentionOf(&it.Message)),
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
func (e *Engine) Refuse(ctx context.Context, refused []record.Refused) error {
	if err := e.cfg.Queues.DeadLetter(ctx, refused); err != nil {
		return fmt.Errorf("dead-letter messages: %w", err)
	}
	for _, r := range refused {
		if r.Delivery != nil || r.Reason != record.ReasonHandler && r.Reason != record.ReasonAttempts {
			continue // the token is another message's, or there is none to write
		}
		if err := e.note(ctx, r); err != nil {
			e.cfg.Log.Warn("refusal not noted", "stream", r.Message.Stream, "reason", r.Reason, "error", err)
		}
	}
	return nil
}

// note writes the reason into an issued token. A conflict means that the message has moved on; then there is nothing to say.
func (e *Engine) note(ctx context.Context, r record.Refused) error {
	it := &item{Message: r.Message}
	s, err := e.admissible(it)
	if err != nil || it.byNumber {
		return err
	}
	_, tokens, err := e.cfg.Store.Load(ctx, nil, []record.TokenKey{it.token()})
	if err != nil {
		return err
	}
	old := tokens[0]
	if _, fresh := admit(s, it, old, e.cfg.Now()); !fresh {
		return nil
	}
	next := old
	next.Key, next.State, next.Fingerprint, next.Stream, next.Group = it.token(), record.Issued, it.print(), it.Stream, it.GroupName()
	next.Owner, next.Reason, next.Expires = e.cfg.NewID(), r.Reason, e.cfg.Now().Add(IssuedRetention)
	if _, err := e.cfg.Store.SwapToken(ctx, old, next); err != nil && !errors.Is(err, record.ErrConflict) {
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
	Reason record.Reason // of StatusRejected
	Group  string
	Reply  *record.Reply
	Token  record.Token
}

// Status looks a message up by its identity. A numbered message is named by its source, epoch and sequence, or by the id source/epoch/sequence; its m.Group must be given
// unless it is the default. Other messages' groups are known by their tokens.
func (e *Engine) Status(ctx context.Context, m record.Message) (State, error) {
	s, ok := e.streams[m.Stream]
	if !ok {
		return State{}, fmt.Errorf("%w: %q", record.ErrNoStream, m.Stream)
	}
	if s.Admission == record.BySequence && m.Route == "" && m.Source == "" {
		m.Source, m.Epoch, m.Sequence, ok = record.ParseNumber(m.ID)
		if !ok {
			return State{Status: StatusUnknown}, nil
		}
	}
	it := &item{Message: m}
	if _, err := e.admissible(it); err != nil {
		return State{}, err
	}
	_, tokens, err := e.cfg.Store.Load(ctx, nil, []record.TokenKey{it.token()})
	if err != nil {
		return State{}, fmt.Errorf("load token: %w", err)
	}
	t := tokens[0]
	if m.Group == "" && t.Group != "" {
		it.Group = t.Group
	}
	st := State{Status: StatusUnknown, Group: it.GroupName(), Token: t, Reply: t.Reply}
	if t.State == record.Done && t.Reason != record.ReasonDeleted {
		st.Status = StatusDone
		return st, nil
	}
	if t.Reason == record.ReasonDeleted {
		st.Status = StatusDeleted
		return st, nil
	}
	groups, _, err := e.cfg.Store.Load(ctx, []record.GroupKey{it.GroupKey()}, nil)
	if err != nil {
		return State{}, fmt.Errorf("load group: %w", err)
	}
	st.look(&groups[0], it)
	return st, nil
}

// look finds the status of a message that is not done by its token.
func (st *State) look(g *record.Group, it *item) {
	entry, pending := it.entry(g)
	src := g.Sources[it.SourceKey()]
	switch {
	case pending:
		st.Status, st.Reply = StatusCommitted, entry.Reply
	case it.byNumber && src.Epoch == it.Epoch && src.Held.Contains(it.Sequence):
		st.Status = StatusHeld
	case it.byNumber && src.Epoch == it.Epoch && src.Skipped.Contains(it.Sequence):
		st.Status, st.Reason = StatusRejected, record.ReasonSkipped
	case it.byNumber && src.Epoch == it.Epoch && it.Sequence < src.Next:
		st.Status = StatusDone
	case st.Token.Reason != "":
		st.Status, st.Reason = StatusRejected, st.Token.Reason
	case st.Token.State != record.Absent:
		st.Status = StatusAccepted
	}
}
