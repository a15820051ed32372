package admission

import (
	"context"
	"fmt"

	"github.com/effectively-once/once/internal/record"
)

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

	entry *record.Pending // of StatusCommitted
}

// OfOther reports whether this is the state of another content than that of a message, as far as anything remembers: of a numbered message that is done nothing does, unless
// there was a reply.
func (st *State) OfOther(m *record.Message) bool {
	if st.entry != nil {
		return st.entry.Fingerprint != st.entry.Print(m.Fingerprint())
	}
	return st.Status == StatusDone && st.Token.State == record.Done && st.Token.Fingerprint != m.Fingerprint()
}

// Status looks a message up by its identity. A numbered message is named by its source, epoch and sequence, or by the id source/epoch/sequence; its m.Group must be given
// unless it is the default. Other messages' groups are known by their tokens.
func (d *Desk) Status(ctx context.Context, m record.Message) (State, error) {
	s, ok := d.cfg.Streams[m.Stream]
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
	if _, err := a.Check(d.cfg.Streams); err != nil {
		return State{}, err
	}
	var keys []record.GroupKey
	if a.ByNumber { // its group is known, and read before its token, which may be marked while the number is passed
		keys = append(keys, a.GroupKey())
	}
	groups, tokens, err := d.cfg.Store.Load(ctx, keys, []record.TokenKey{a.Token()})
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
		return st, nil
	}
	if !a.ByNumber {
		if groups, _, err = d.cfg.Store.Load(ctx, []record.GroupKey{a.GroupKey()}, nil); err != nil {
			return State{}, fmt.Errorf("load group: %w", err)
		}
	}
	st.look(&groups[0], a)
	return st, nil
}

// look finds the status of a message that is not done by its token.
func (st *State) look(g *record.Group, a *Arrival) {
	entry, pending := a.Entry(g)
	src := g.Sources[a.SourceKey()]
	skipped, forgotten := src.Passed(a.Sequence)
	numbered := a.ByNumber && src.Epoch == a.Epoch
	switch {
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
	case st.Token.Reason != "" && !st.Token.Deleting():
		st.Status, st.Reason = StatusRejected, st.Token.Reason
	case st.Token.State != record.Absent:
		st.Status = StatusAccepted
	}
}
