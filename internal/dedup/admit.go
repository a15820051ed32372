package dedup

import (
	"time"

	"github.com/effectively-once/once/internal/record"
)

// admit tells by its token whether a message is new. If it is not, the outcome is its fate.
func admit(s record.Stream, it *item, t record.Token, now time.Time) (fate record.Outcome, fresh bool) {
	switch {
	case t.State == record.Done && t.Reason == record.ReasonDeleted:
		return record.Outcome{Kind: record.Rejected, Reason: record.ReasonDeleted, Detail: "the request was deleted"}, false
	case t.State != record.Absent && t.Fingerprint != it.print():
		return keyReuse(), false
	case t.State == record.Done:
		return record.Outcome{Kind: record.Duplicate, Reply: t.Reply}, false
	case t.State == record.Absent && (s.Admission == record.ByToken || it.Route != ""):
		return record.Outcome{Kind: record.Rejected, Reason: record.ReasonUnknown, Detail: "no token was issued for it, or it was forgotten"}, false
	case t.State == record.Absent && !it.Accepted.IsZero() && now.After(it.Accepted.Add(s.RetentionOf(&it.Message))):
		return record.Outcome{Kind: record.Rejected, Reason: record.ReasonExpired, Detail: "it is older than the retention of its stream, so it may have been processed before"}, false
	}
	return record.Outcome{}, true
}

func keyReuse() record.Outcome {
	return record.Outcome{Kind: record.Rejected, Reason: record.ReasonKeyReuse, Detail: "the same identity was used for another content"}
}
