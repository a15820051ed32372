package admission

import (
	"errors"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// errDeleting makes a message wait while its request is being deleted: the delete has to be
// completed first.
var errDeleting = errors.New("the request is being deleted")

// errLeased makes a message wait while a leased attempt runs it.
var errLeased = errors.New("another attempt runs the message")

// Admit decides from its token whether a message is new. If it is not, fate is its outcome. A
// request whose delete is not complete is to be retried.
func Admit(s record.Stream, a *Arrival, t record.Token, now time.Time) (fate record.Outcome, fresh bool) {
	switch {
	case t.Deleted():
		return reject(record.ReasonDeleted, "the request was deleted"), false
	case t.State != record.Absent && t.Fingerprint != a.Fingerprint():
		return KeyReuse(), false
	// the delete may never be completed, so the request is not reported as deleted
	case t.Deleting():
		return record.Outcome{Err: errDeleting}, false
	case t.State == record.Done:
		return record.Outcome{Kind: record.Duplicate, Reply: t.Reply}, false
	case t.State == record.Issued && t.Reason == record.ReasonHandler: // by an older version
		return record.Outcome{Kind: record.Duplicate, Reply: record.Refusal(t.Reason, t.Detail)}, false
	case t.State == record.Leased && a.Direct:
		return record.Outcome{Err: errLeased}, false
	case t.State == record.Absent && (s.Admission == record.ByToken || a.Route != ""):
		return reject(record.ReasonUnknown, "no token was issued for it, or it was forgotten"), false
	// Expiry is inclusive, as in the store: at this very moment the token is forgotten.
	case t.State == record.Absent && !a.Accepted.IsZero() && !now.Before(a.Accepted.Add(s.RetentionOf(&a.Message))):
		return reject(record.ReasonExpired, "it is older than the retention of its stream, so it may have been processed before"), false
	}
	return record.Outcome{}, true
}

// Stale reports whether an issued token no longer shows that its message is new, because the
// message was done and is forgotten, as the record of its group shows. See [record.Token.StaleBy].
func Stale(t *record.Token, g *record.Group, now time.Time) bool {
	for i := range g.Pending {
		if t.StaleBy(&g.Pending[i], now) {
			return true
		}
	}
	return false
}

// Current returns the token of a message as it counts beside the record of its group, which was
// loaded before it and has no entry of the message. An issued token counts as absent if it is
// stale, or if the message is so old that the record may have been forgotten since it was done.
func Current(s record.Stream, a *Arrival, t record.Token, g *record.Group, now time.Time) record.Token {
	named, keeps := a.Named(s)
	old := t.State == record.Issued && !a.Accepted.IsZero() && !now.Before(a.Accepted.Add(record.IssuedRetention))
	if Stale(&t, g, now) || keeps && named == g.Key && old && a.Route == "" {
		return record.Token{Key: t.Key}
	}
	return t
}
