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
