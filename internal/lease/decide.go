package lease

import (
	"time"

	"github.com/effectively-once/once/internal/record"
)

const (
	// released is the owner of a token that was given back.
	released = "released"
	// tooLarge marks the token of a message that is done and whose reply could not be kept.
	tooLarge record.Reason = "reply-too-large"
)

// A verdict is what a stored token means for an attempt that does not hold it.
type verdict struct {
	settled bool // there is nothing to run: result and err tell
	result  Result
	err     error
}

// judge decides whether a message may run.
func judge(t record.Token, id Identity, now time.Time) verdict {
	same := t.Fingerprint == id.Fingerprint
	switch { // only leases are released and have an end, and only what is done has a reply that is too large
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

// leased is the token of an attempt that takes over from old, until a time.
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

// done is the token of an attempt that has succeeded.
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
	if replySize(reply) > g.MaxReply {
		t.Reply, t.Reason = nil, tooLarge
	}
	return t
}

func replySize(r *record.Reply) int {
	if r == nil {
		return 0
	}
	n := len(r.Body)
	for name, values := range r.Header {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	return n
}
