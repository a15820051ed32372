package lease

import (
	"time"

	"github.com/effectively-once/once/internal/record"
)

const (
	// released is the owner of a token whose lease was released.
	released = "released"
	// tooLarge marks the done token of a message whose reply was too large to keep.
	tooLarge record.Reason = "reply-too-large"
)

// A verdict is the meaning of a stored token for an attempt that does not hold it.
type verdict struct {
	settled bool // there is nothing to run: return result and err
	result  Result
	err     error
}

// judge decides from the stored token whether a message may run.
func judge(t record.Token, id Identity, now time.Time) verdict {
	// A token that was migrated from another library has no hash of its content.
	same := t.Fingerprint == id.Fingerprint || t.Fingerprint == record.Fingerprint{}
	// only leases are released and have an end; only done tokens have a reply that is too large
	switch {
	case t.State == record.Absent, t.Owner == released:
		return verdict{}
	case !same:
		return verdict{settled: true, err: ErrKeyReuse}
	case t.Reason == tooLarge:
		return verdict{settled: true, err: ErrReplyTooLarge}
	case t.State == record.Done:
		return verdict{settled: true, result: Result{Reply: t.Reply, Duplicate: true}}
	case t.Lease.After(now):
		return verdict{settled: true, err: &LeasedError{RetryAfter: t.Lease.Sub(now)}}
	}
	return verdict{}
}

// leased returns the token of an attempt that takes over from old, until a time.
func (g *Guard) leased(old record.Token, id Identity, owner string, until time.Time) record.Token {
	return record.Token{
		Key:         id.Key,
		State:       record.Leased,
		Fingerprint: id.Fingerprint,
		Owner:       owner,
		Epoch:       old.Epoch + 1,
		Lease:       until,
		Expires:     until.Add(g.Retention),
	}
}

// done returns the token of an attempt that succeeded.
func (g *Guard) done(old record.Token, id Identity, owner string, reply *record.Reply) record.Token {
	t := record.Token{
		Key:         id.Key,
		State:       record.Done,
		Fingerprint: id.Fingerprint,
		Owner:       owner,
		Epoch:       old.Epoch,
		Reply:       reply,
		Expires:     g.Now().Add(g.Retention),
	}
	if reply.Size() > g.MaxReply {
		return withoutReply(t)
	}
	return t
}

// withoutReply returns the token of a done message whose reply is too large to keep.
func withoutReply(t record.Token) record.Token {
	t.Reply, t.Reason = nil, tooLarge
	return t
}
