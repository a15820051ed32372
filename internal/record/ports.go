package record

import (
	"context"
	"time"
)

// Queues is what the engine asks of the queues around it. Nil means that the queue has the message durably, or will have it no later than any write that
// the caller makes afterwards; anything else is ambiguous, and is repeated.
type Queues interface {
	// Trigger asks for Publish of groups, after a delay.
	Trigger(ctx context.Context, groups []GroupKey, delay time.Duration) error
	// Return puts messages back on the ingress queue, under their identities.
	Return(ctx context.Context, messages []Message) error
	// DeadLetter puts refused messages on the dead-letter queue.
	DeadLetter(ctx context.Context, refused []Refused) error
}

// Refused is a message or an effect that goes to a dead-letter queue, with the reason.
type Refused struct {
	Message Message
	// Delivery and To are set where an effect was refused by its destination.
	Delivery *Delivery
	To       string
	Reason   Reason
	Detail   string
}

// A Sender delivers effects to one destination.
type Sender interface {
	// Send delivers in order and gives an error for each delivery, nil where it is settled (sent, now or before). Deliveries of one group are sent in
	// their order; after a failure the later ones of that group are not sent and get an error too. A [*RefusedError] says that the destination will
	// never take this one: it goes to the dead-letter queue and counts as settled. Send may be called concurrently, also with the same deliveries.
	Send(ctx context.Context, deliveries []Delivery) []error
}

// A Delivery is one effect on its way to one destination.
type Delivery struct {
	// Identity is stream/group/number, or stream/id for a message without a group record: the same however often it is sent.
	Identity string
	Stream   string
	// Group is the group that sent it; Number its number there, 0 for a message without a group record.
	Group       string
	Number      uint64
	Incarnation uint64
	// Sequence is the number among the deliveries from this group to Target, without gaps; 0 where the destination is not sequenced.
	Sequence uint64
	// Target is the group at the destination.
	Target string
	// Retention is how long the identity stands for this content, where there is no group record: after it, the message's id may name another one.
	Retention time.Duration
	Effect    Effect
}

// A RefusedError says that a destination will never take a delivery.
type RefusedError struct {
	Reason Reason
	Detail string
}

func (e *RefusedError) Error() string { return string(e.Reason) + ": " + e.Detail }

// Blobs keeps staged and published objects.
type Blobs interface {
	// Check tells what is wrong with a key, before anything is staged under it.
	Check(key string) error
	// Stage writes an object under an attempt-unique name, invisible to readers. It registers the name before it writes, so that a sweep finds it.
	Stage(ctx context.Context, staged string, body []byte) error
	// Publish makes a staged object visible under its key. Repeating it, also when the staged object is gone already, is harmless.
	Publish(ctx context.Context, b Blob) error
	// Discard deletes staged objects; missing ones are fine.
	Discard(ctx context.Context, staged []string) error
	// Staged lists what was staged before a time and is neither published nor discarded.
	Staged(ctx context.Context, before time.Time) ([]string, error)
}
