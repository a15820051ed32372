package admission

import (
	"context"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// Status is the status of a message as shown to people.
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

// A State is the result of [Issuer.Status].
type State struct {
	Status Status
	Reason record.Reason // of StatusRejected, and of StatusAccepted if the message is a dead letter
	Detail string        // explains Reason to the sender
	Group  string
	Reply  *record.Reply
	Token  record.Token
	// Ended says that the log of the group has ended. It is not set if the token is done or
	// deleted.
	Ended bool

	entry *record.Pending // of StatusCommitted
}

// OfOther reports whether the state belongs to a message with the same identity but other content,
// as far as any record shows. Of a done numbered message no record is left unless it has a reply.
func (st *State) OfOther(m *record.Message) bool {
	if st.entry != nil {
		return st.entry.Fingerprint != st.entry.Print(m.Fingerprint())
	}
	return (st.Status == StatusDone || st.Status == StatusRejected) && st.Token.State == record.Done && st.Token.Fingerprint != m.Fingerprint()
}

// Status looks a message up by its identity. A numbered message is named by its source, epoch and
// sequence, or by the id source/epoch/sequence; its m.Group must be set unless it is the default.
// The groups of other messages are in their tokens.
func (i *Issuer) Status(ctx context.Context, m record.Message) (State, error) {
	s, ok := i.cfg.Streams[m.Stream]
	if !ok {
		return State{}, fmt.Errorf("%w: %q", record.ErrNoStream, m.Stream)
	}
	if s.Admission == record.BySequence && m.Route == "" && m.Source == "" {
		m.Source, m.Epoch, m.Sequence, ok = record.ParseNumber(m.ID)
		if !ok {
			return State{Status: StatusUnknown}, nil
		}
	}
	a := &Arrival{Message: m}
	if _, err := a.Check(i.cfg.Streams); err != nil {
		return State{}, err
	}
	var keys []record.GroupKey
	// Its group is known, and must be read before the token: a token may be marked while its number
	// is passed.
	if a.ByNumber {
		keys = append(keys, a.GroupKey())
	}
	groups, tokens, err := i.cfg.Store.Load(ctx, keys, []record.TokenKey{a.Token()})
	if err != nil {
		return State{}, fmt.Errorf("load status: %w", err)
	}
	t := tokens[0]
	if t.Group != "" {
		a.Group = t.Group
	}
	st := State{Status: StatusUnknown, Group: a.GroupName(), Token: t, Reply: t.Reply}
	switch {
	case t.Deleted():
		st.Status = StatusDeleted
		return st, nil
	case t.State == record.Done:
		st.Status = StatusDone
		return st.Told(), nil
	}
	if !a.ByNumber {
		if groups, _, err = i.cfg.Store.Load(ctx, []record.GroupKey{a.GroupKey()}, nil); err != nil {
			return State{}, fmt.Errorf("load group: %w", err)
		}
	}
	now := i.cfg.Now()
	if Stale(&st.Token, &groups[0], now) {
		st.Token = record.Token{Key: t.Key}
	}
	st.look(&groups[0], a, now)
	return st.Told(), nil
}

// Told shows a refusal in place of the reply that remembers it.
func (st State) Told() State {
	if reason, detail, ok := st.Reply.Refused(); ok {
		st.Status, st.Reason, st.Detail, st.Reply = StatusRejected, reason, detail, nil
	}
	return st
}

// look sets the status of a message whose token is not done.
func (st *State) look(g *record.Group, a *Arrival, now time.Time) {
	entry, pending := a.Entry(g, now)
	src := g.Sources[a.SourceKey()]
	skipped, forgotten := src.Passed(a.Sequence)
	numbered := a.ByNumber && src.Epoch == a.Epoch
	st.Ended = g.Log.Ended
	switch {
	case pending && entry.Kept():
		st.Status, st.Reply, st.Token = StatusDone, entry.Reply, entry.DoneToken(g.Key, now)
	case pending:
		st.Status, st.Reply, st.entry = StatusCommitted, entry.Reply, &entry
	case numbered && src.Held.Contains(a.Sequence):
		st.Status = StatusHeld
	case numbered && skipped:
		st.Status, st.Reason = StatusRejected, record.ReasonSkipped
	case numbered && forgotten:
		st.Status = StatusUnknown
	case numbered && a.Sequence < src.Next:
		st.Status = StatusDone
	case a.ByNumber && a.Epoch >= src.Epoch && g.Log.Ended:
		st.Status, st.Reason = StatusRejected, record.ReasonEnded
	case st.Token.State != record.Absent:
		st.OfToken()
	}
}

// OfToken sets the status of a message that is known by its issued token alone.
func (st *State) OfToken() {
	st.Status = StatusAccepted
	if t := &st.Token; t.Reason != "" && !t.Deleting() {
		if st.Reason, st.Detail = t.Reason, t.Detail; !t.Reason.Open() {
			st.Status = StatusRejected
		}
	}
}
