package once

import (
	"cmp"
	"net/http"

	"github.com/effectively-once/once/internal/record"
)

// Kind is the kind of an Outcome.
type Kind uint8

// The kinds of outcome. After any kind but Retry the delivery may be acknowledged.
const (
	// Retry: nothing is decided; deliver the message again. Err has the reason.
	Retry Kind = iota
	// Processed: this call committed it.
	Processed
	// Duplicate: it was done before, and Reply is the stored reply; or it was rejected before, and
	// Reason and Detail are those of that time.
	Duplicate
	// Held: it is stored until its predecessors arrive.
	Held
	// Rejected: it will not be processed, and repetitions are rejected too if the handler decided
	// it.
	Rejected
)

// String returns the kind's word.
func (k Kind) String() string {
	switch k {
	case Retry:
		return "retry"
	case Processed:
		return "processed"
	case Duplicate:
		return "duplicate"
	case Held:
		return "held"
	case Rejected:
		return "rejected"
	}
	return "unknown"
}

// An Outcome is the fate of one message.
type Outcome struct {
	Kind Kind
	// Reason is the word for why a message was rejected, such as "key-reuse", "unknown",
	// "stale-epoch" or "rejected" (by the handler). Programs may rely on it.
	Reason string
	// Detail explains the reason, for people.
	Detail string
	// Reply is the handler's reply, nil if it set none. Of Processed and Duplicate.
	Reply *Reply
	// Err is why a message must be retried. Of Retry.
	Err error
}

// Settled reports whether the delivery may be acknowledged.
func (o Outcome) Settled() bool { return o.Kind != Retry }

// A Reply is a handler's reply. It is stored with the message's token and returned to duplicates
// byte for byte.
type Reply struct {
	Status int
	Header http.Header
	Body   []byte
}

func outcome(o record.Outcome) Outcome {
	kinds := [...]Kind{record.Retry: Retry, record.Processed: Processed, record.Duplicate: Duplicate, record.HeldBack: Held, record.Rejected: Rejected}
	if reason, detail, ok := o.Reply.Refused(); ok {
		o.Reason, o.Detail, o.Reply = reason, cmp.Or(o.Detail, detail), nil
	}
	return Outcome{Kind: kinds[o.Kind], Reason: string(o.Reason), Detail: o.Detail, Reply: reply(o.Reply), Err: o.Err}
}

func reply(r *record.Reply) *Reply {
	if r == nil {
		return nil
	}
	return &Reply{Status: r.Status, Header: r.Header, Body: r.Body}
}
