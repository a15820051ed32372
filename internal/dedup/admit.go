package dedup

import (
	"strconv"
	"time"
)

// admit tells by its token whether a message is new. If it is not, the outcome is its fate.
func admit(s Stream, it *item, t Token, now time.Time) (fate Outcome, fresh bool) {
	switch {
	case t.State == Done && t.Reason == ReasonDeleted:
		return Outcome{Kind: Rejected, Reason: ReasonDeleted, Detail: "the request was deleted"}, false
	case t.State != Absent && t.Fingerprint != it.print():
		return keyReuse(), false
	case t.State == Done:
		return Outcome{Kind: Duplicate, Reply: t.Reply}, false
	case t.State == Absent && (s.Admission == ByToken || it.Route != ""):
		return Outcome{Kind: Rejected, Reason: ReasonUnknown, Detail: "no token was issued for it, or it was forgotten"}, false
	case t.State == Absent && !it.Accepted.IsZero() && now.After(it.Accepted.Add(s.retention(&it.Message))):
		return Outcome{Kind: Rejected, Reason: ReasonExpired, Detail: "it is older than the retention of its stream, so it may have been processed before"}, false
	}
	return Outcome{}, true
}

func keyReuse() Outcome {
	return Outcome{Kind: Rejected, Reason: ReasonKeyReuse, Detail: "the same identity was used for another content"}
}

// retention is how long the message's token remembers that it is done.
func (s Stream) retention(m *Message) time.Duration {
	switch {
	case s.Retention != 0:
		return s.Retention
	case m.Retention != 0:
		return m.Retention
	default:
		return DefaultRetention
	}
}

// number is the identity of a numbered message: what its sender counts, whatever id it gave besides.
func (m *Message) number() string {
	return m.Source + "/" + strconv.FormatUint(m.Epoch, 10) + "/" + strconv.FormatUint(m.Sequence, 10)
}

// ready reports whether everything that the message depends on has been processed in the group.
func (g *Group) ready(m *Message) bool {
	for source, n := range m.DependsOn {
		if source == m.Source || n == 0 {
			continue // a vector clock names everybody: its own number, and those who have said nothing
		}
		if g.Sources[sourceKey(m.Principal, source)].Next <= n {
			return false
		}
	}
	return true
}
