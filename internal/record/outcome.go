package record

import "errors"

// Kind is what became of a message.
type Kind uint8

// The kinds of outcome. All but Retry settle the delivery: it may be acknowledged.
const (
	// Retry: nothing is settled; deliver it again. Err says why.
	Retry Kind = iota
	// Processed: this call committed it.
	Processed
	// Duplicate: it was committed before.
	Duplicate
	// HeldBack: it waits, durably, for its predecessors.
	HeldBack
	// Rejected: it will not be processed; it belongs on the dead-letter queue, with the reason.
	Rejected
)

// String gives the kind's word.
func (k Kind) String() string {
	return [...]string{"retry", "processed", "duplicate", "held", "rejected"}[k]
}

// A Reason says why a message was rejected; the words are stable.
type Reason string

// The reasons.
const (
	ReasonKeyReuse   Reason = "key-reuse"   // same identity, other content
	ReasonUnknown    Reason = "unknown"     // token admission: never issued, or forgotten
	ReasonExpired    Reason = "expired"     // older than what its token would remember
	ReasonStaleEpoch Reason = "stale-epoch" // a newer incarnation of its source has spoken
	ReasonSkipped    Reason = "skipped"     // its number was skipped by the gap policy
	ReasonLimit      Reason = "limit"       // its group's record is to remember no more names
	ReasonGap        Reason = "gap"         // its predecessors did not come in time
	ReasonInvalid    Reason = "invalid"     // it breaks a rule for messages
	ReasonHandler    Reason = "rejected"    // the handler's decision
	ReasonDeleted    Reason = "deleted"     // the one-time request was deleted
	ReasonGone       Reason = "gone"        // the destination takes no more
	ReasonAttempts   Reason = "attempts"    // delivered too many times without success
)

// An Outcome is the fate of one message of a batch.
type Outcome struct {
	Kind   Kind
	Reason Reason // of Rejected
	Detail string // of Rejected, for people
	Reply  *Reply // of Processed and Duplicate, where there is one
	Err    error  // of Retry
}

// Settled reports whether the delivery may be acknowledged.
func (o Outcome) Settled() bool { return o.Kind != Retry }

// Event is what an observer is told of the outcome.
func (o Outcome) Event(stream string) Event {
	ev := Event{Stream: stream, Count: 1, Reason: o.Reason}
	switch o.Kind {
	case Processed:
		ev.Name = EventProcessed
	case Duplicate:
		ev.Name = EventDuplicate
	case HeldBack:
		ev.Name = EventHeld
	case Rejected:
		ev.Name = EventRejected
	case Retry:
		ev.Name = EventRetried
	}
	return ev
}

// ErrBlocked is the error of a message that waits for another try because an earlier one of its group failed.
var ErrBlocked = errors.New("an earlier message of the group failed")
