package admission

import (
	"errors"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// errDeleting keeps a request from being run: its delete is to be finished first.
var errDeleting = errors.New("the request is being deleted")

// Admit tells by its token whether a message is new. If it is not, the outcome is its fate: to be tried again, where its delete is not finished yet.
func Admit(s record.Stream, a *Arrival, t record.Token, now time.Time) (fate record.Outcome, fresh bool) {
	switch {
	case t.Deleted():
		return reject(record.ReasonDeleted, "the request was deleted"), false
	case t.State != record.Absent && t.Fingerprint != a.Fingerprint():
		return KeyReuse(), false
	case t.Deleting(): // it is not deleted before the delete is finished, which may be never
		return record.Outcome{Err: errDeleting}, false
	case t.State == record.Done:
		return record.Outcome{Kind: record.Duplicate, Reply: t.Reply}, false
	case t.State == record.Absent && (s.Admission == record.ByToken || a.Route != ""):
		return reject(record.ReasonUnknown, "no token was issued for it, or it was forgotten"), false
	case t.State == record.Absent && !a.Accepted.IsZero() && !now.Before(a.Accepted.Add(s.RetentionOf(&a.Message))): // at the very moment a token is forgotten
		return reject(record.ReasonExpired, "it is older than the retention of its stream, so it may have been processed before"), false
	}
	return record.Outcome{}, true
}
