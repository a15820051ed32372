package record

import (
	"context"
	"strings"
	"time"
)

// Queues are the queues that the engine writes to. A nil error means that the queue holds the
// message durably, or will no later than any write that the caller makes afterwards. After any
// other error the message may or may not be in the queue, so the caller repeats the call. If the
// error wraps an [EachError], the messages without an error in it are in the queue.
type Queues interface {
	// Trigger asks for Publish of groups, after a delay.
	Trigger(ctx context.Context, groups []GroupKey, delay time.Duration) error
	// Return puts messages back on the ingress queue, under the same identities.
	Return(ctx context.Context, messages []Message) error
	// DeadLetter puts refused messages on the dead-letter queue.
	DeadLetter(ctx context.Context, refused []Refused) error
	// Delay holds effects and messages of timers until they are due, and then puts them on their
	// queues. A copy of one of them may arrive too: it has the same identity.
	Delay(ctx context.Context, delayed []Delayed) error
}

// Delayed is an effect or the message of a timer that is to arrive later.
type Delayed struct {
	// NotBefore is when it is due. If that has passed, it is due now.
	NotBefore time.Time
	// Message is that of a timer, if Delivery is nil.
	Message Message
	// Delivery and To are an effect and its destination. It is delivered as a redriven one: later
	// effects of its group may have been sent before it.
	Delivery *Delivery
	To       string
}

// Identity names the delayed thing, and is the same for every copy.
func (d *Delayed) Identity() string {
	if d.Delivery != nil {
		return d.Delivery.Identity + "@" + d.To
	}
	return d.Message.GroupKey().Path() + "/" + d.Message.ID
}

// Refused is a message or an effect that goes to a dead-letter queue, with the reason.
type Refused struct {
	Message Message
	// Delivery and To are set if the destination To refused an effect.
	Delivery *Delivery
	To       string
	Reason   Reason
	Detail   string
	// Session and Number are set if a consumer's session refused or skipped the message: its name
	// and the number of the entry there. After a redrive they are gone.
	Session string
	Number  uint64
}

// A Sender delivers effects to one destination.
type Sender interface {
	// Send sends deliveries in order and returns one error for each. The error is nil if the
	// delivery was sent, now or before. Deliveries of one group are sent in their order: if one
	// fails, the later ones of that group are not sent and get an error too. A [*RefusedError]
	// means that the destination will never take this delivery: it goes to the dead-letter queue
	// and counts as settled. Send may be called concurrently, even with the same deliveries.
	Send(ctx context.Context, deliveries []Delivery) []error
}

// A Delivery is one effect to be sent to one destination. It goes out; a message that comes in from
// a queue is a queue.Delivery.
type Delivery struct {
	// Identity is stream/group/number, or stream/id for a message without a group record. It is the
	// same for every copy.
	Identity string
	// Group is the group that sent the effect. Number is the effect's number there, or 0 for a
	// message without a group record.
	Stream      string
	Group       string
	Number      uint64
	Incarnation uint64
	// Hash is the [Message.Hash] of the message that made the effect. It is for logs.
	Hash string
	// Sequence is the delivery's number among those from this group to Target, without gaps; 0 if
	// the destination is not sequenced.
	Sequence uint64
	// Target is the group at the destination.
	Target string
	// Retention is how long the identity names this content if there is no group record. After that
	// time the same id may be used for a different message.
	Retention time.Duration
	// Committed is about when the effect was committed, or redriven; zero if that is not known.
	Committed time.Time
	// Redriven reports whether the delivery was a dead letter. Then later effects of its group may
	// have been sent before it.
	Redriven bool
	Effect   Effect
}

// A RefusedError says that a destination will never take a delivery.
type RefusedError struct {
	Reason Reason
	Detail string
}

func (e *RefusedError) Error() string { return string(e.Reason) + ": " + e.Detail }

// An AnswerError is the answer of a destination that did not take a delivery.
type AnswerError struct {
	// Status is that of HTTP.
	Status int
	// Text describes the status, such as "400 Bad Request".
	Text string
	// Body is the beginning of the answer's body, at most [MaxAnswer] bytes.
	Body string
}

// MaxAnswer is how much of an answer's body is kept for people, in bytes.
const MaxAnswer = 1 << 10

// maxShown is how much of an answer's body errors show, in bytes: they are logged.
const maxShown = 200

// Error returns the status and up to 200 bytes of the body.
func (e *AnswerError) Error() string { return "the answer is " + e.text(maxShown) }

// Detail returns the status and the whole kept body.
func (e *AnswerError) Detail() string { return e.text(MaxAnswer + len("…")) }

func (e *AnswerError) text(most int) string {
	if body := printable(strings.TrimRight(e.Body, "\r\n"), most); body != "" {
		return e.Text + ": " + body
	}
	return e.Text
}

// Blobs keeps staged and published objects.
type Blobs interface {
	// Check returns an error if no object can be published under the key. It is called before
	// anything is staged for it.
	Check(key string) error
	// Stage writes an object under a name that is unique to the attempt, invisible to readers. It
	// registers the name before it writes, so that a sweep finds it.
	Stage(ctx context.Context, staged string, body []byte) error
	// Publish makes a staged object visible under its key. Repeating it is harmless, even if the
	// staged object is gone already.
	Publish(ctx context.Context, b Blob) error
	// Discard deletes staged objects; missing ones are ignored.
	Discard(ctx context.Context, staged []string) error
	// Staged lists the objects that were staged before a time and are neither published nor
	// discarded.
	Staged(ctx context.Context, before time.Time) ([]string, error)
}
