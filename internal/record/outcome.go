package record

import (
	"errors"
	"strconv"
	"strings"
	"unicode"
)

// Kind is the kind of an Outcome.
type Kind uint8

// The kinds of outcome. After any kind but Retry the delivery may be acknowledged.
const (
	// Retry: nothing is decided; deliver the message again. Err has the reason.
	Retry Kind = iota
	// Processed: this call committed it.
	Processed
	// Duplicate: the message was committed before, or its refusal was: then Reply is a [Refusal].
	Duplicate
	// HeldBack: the message is stored until its predecessors arrive.
	HeldBack
	// Rejected: the message will not be processed. If Reply is set, it is a [Refusal] that this
	// call committed, and a dead letter was written before. Otherwise the message belongs in the
	// dead-letter queue, with the reason.
	Rejected
)

// String returns the kind's word.
func (k Kind) String() string {
	return [...]string{"retry", "processed", "duplicate", "held", "rejected"}[k]
}

// A Reason says why a message was rejected. Programs may rely on these words.
type Reason string

// The reasons.
const (
	ReasonKeyReuse   Reason = "key-reuse"   // same identity, different content
	ReasonUnknown    Reason = "unknown"     // token admission: never issued, or forgotten
	ReasonExpired    Reason = "expired"     // older than the retention of its token
	ReasonStaleEpoch Reason = "stale-epoch" // its source has a newer epoch
	ReasonSkipped    Reason = "skipped"     // its number was skipped by the gap policy
	ReasonLimit      Reason = "limit"       // the group record has no room for more names
	ReasonGap        Reason = "gap"         // its predecessors did not arrive in time
	ReasonInvalid    Reason = "invalid"     // it breaks a rule for messages
	ReasonHandler    Reason = "rejected"    // the handler's decision
	ReasonDeleted    Reason = "deleted"     // the one-time request was deleted
	ReasonLoop       Reason = "loop"        // it came through the system that it was sent to
	ReasonGone       Reason = "gone"        // the destination answered 410 Gone
	ReasonAttempts   Reason = "attempts"    // delivered too many times without success
	ReasonEnded      Reason = "ended"       // the log of its group has ended

	// ReasonUnreadable: the handler can't read the state of its group. On one machine it is the
	// reason of a wait only; on AWS also of a dead letter, before SQS deletes the message.
	ReasonUnreadable Reason = "state-unreadable"

	// ReasonUndeliverable: the destination did not take the effect in the time of its retry policy,
	// or an operator skipped it.
	ReasonUndeliverable Reason = "undeliverable"
)

// An Outcome is the fate of one message of a batch.
type Outcome struct {
	Kind   Kind
	Reason Reason // of Rejected
	Detail string // of Rejected, for people
	Reply  *Reply // of Processed, Duplicate and Rejected, if there is one
	Err    error  // of Retry
}

// maxRejectText bounds the text of a refusal that is kept and sent to callers, in bytes.
const maxRejectText = 500

// RejectText returns the detail of a refusal as callers may see it: at most 500 bytes, with control
// characters escaped as in Go.
func RejectText(detail string) string { return printable(detail, maxRejectText) }

// printable returns a text of at most so many bytes, with control characters escaped as in Go. If
// it is longer, it is cut between two characters and ends with "…".
func printable(text string, most int) string {
	var out strings.Builder
	fits := 0 // the length after which the ellipsis still fits
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		text := string(r)
		if unicode.IsControl(r) {
			text = strings.Trim(strconv.QuoteRune(r), "'")
		}
		if out.Len()+len(text) > most {
			return out.String()[:fits] + "…"
		}
		out.WriteString(text)
		if out.Len() <= most-len("…") {
			fits = out.Len()
		}
	}
	return out.String()
}

// Committed returns the outcome of a message that this call has committed with a reply, which may
// be its refusal.
func Committed(r *Reply) Outcome {
	if reason, detail, ok := r.Refused(); ok {
		return Outcome{Kind: Rejected, Reason: reason, Detail: detail, Reply: r}
	}
	return Outcome{Kind: Processed, Reply: r}
}

// Open reports whether a message with this reason was tried for too long. It is accepted still: a
// redrive processes it.
func (r Reason) Open() bool { return r == ReasonAttempts || r == ReasonUnreadable }

// Final reports whether a message that is refused with this reason is answered with it: the same
// key gets the refusal again.
func (r Reason) Final() bool {
	return r == ReasonHandler || r == ReasonInvalid || r == ReasonLimit
}

// Settled reports whether the delivery may be acknowledged.
func (o Outcome) Settled() bool { return o.Kind != Retry }

// Event returns the event that reports the outcome to an observer.
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

// ErrBlocked is the error of a message that is retried because an earlier message of its group
// failed.
var ErrBlocked = errors.New("an earlier message of the group failed")

// ErrUnreadable says that a handler can't read the state of a group, as after a rollback. That is no
// failure of the message.
var ErrUnreadable = errors.New(string(ReasonUnreadable) + ": the state is not of the handler's type")
