// Package queue is the port to a queue with the semantics of SQS: at-least-once delivery,
// visibility timeouts, delays, message groups that block at their first failure, and dead letters.
package queue

import (
	"context"
	"time"
)

// A Queue holds messages until they are deleted. Implementations pass queuetest.Run.
//
// Every method may be called concurrently. If a method fails, it may have been applied. Repeating
// Send makes a second message; repeating another method is harmless.
type Queue interface {
	// Name returns the queue's name; the name of a first-in-first-out queue ends in ".fifo".
	Name() string
	// Send puts any number of messages, durably, and returns a result for each. On a FIFO queue
	// each message needs a group.
	Send(ctx context.Context, messages []Message) []SendResult
	// Receive returns up to max messages and hides them for the visibility time. It waits up to
	// wait for the first one; if none arrives, it returns nothing and no error. On a FIFO queue,
	// while a message of a group is hidden, no other call receives a message of that group; one
	// call may receive several of a group, in order.
	Receive(ctx context.Context, max int, visibility, wait time.Duration) ([]Delivery, error)
	// Delete acknowledges messages and returns a result for each receipt. An unknown, expired or
	// repeated receipt is ignored.
	Delete(ctx context.Context, receipts []string) []error
	// ChangeVisibility hides a received message for a time from now; 0 makes it visible
	// immediately.
	ChangeVisibility(ctx context.Context, receipt string, visibility time.Duration) error
}

// AllOrNone reports whether one Send puts either all of its valid messages or none of them.
func AllOrNone(q Queue) bool {
	a, ok := q.(interface{ AllOrNone() bool })
	return ok && a.AllOrNone()
}

// Named returns a queue under another name: the one that people use, not the one that
// CloudFormation made up.
func Named(q Queue, name string) Queue { return named{q, name} }

type named struct {
	Queue
	name string
}

func (n named) Name() string { return n.name }

// A Message is a message to be put on a queue.
type Message struct {
	Body       string
	Attributes map[string]string // at most 10, names and values as SQS allows
	// Group and DedupID belong to FIFO queues. DedupID only matters if the queue deduplicates.
	Group   string
	DedupID string
	Delay   time.Duration // not on FIFO queues
	// Sender is the sender as authenticated by the queue. Only in-process senders of an embedded
	// queue set it.
	Sender string
}

// A SendResult is the fate of one sent message.
type SendResult struct {
	ID             string
	SequenceNumber string // FIFO only
	Err            error
}

// A Delivery is one receipt of a message. It comes in; an effect that goes out to a destination is
// a record.Delivery.
type Delivery struct {
	Message
	Queue          string // the name of the queue that delivered the message
	ID             string
	Receipt        string
	SequenceNumber string
	Receives       int // this one included
	Sent           time.Time
	// MovedFrom is the name of the queue from which SQS moved the message to this dead-letter queue.
	// It is empty if it was sent here, or if the queue does not record that.
	MovedFrom string
	// FirstReceived is about when the message was first delivered. It is zero if the queue does
	// not record that.
	FirstReceived time.Time
	// Unread is why the body could not be read that is kept outside of the queue; nil if it could,
	// or if the queue has the whole body. Then Body is only the name of the body, and a decoder
	// returns this error.
	Unread error
	// Binary lists the names of attributes whose values are binary. No receiver gets the values.
	Binary []string
}

// A Disposition says what the queue does with a delivery. The zero Disposition acknowledges it.
type Disposition struct {
	// Retry leaves the message on the queue, to be delivered again.
	Retry bool
	// Pause is the time until the next delivery. 0 leaves it to the queue.
	Pause time.Duration
}

// A Handler serves a batch of deliveries of one queue and returns a disposition for each. If it
// acknowledges a delivery of a group of a first-in-first-out queue, it acknowledges the earlier
// deliveries of that group in the batch too, or has moved this one to another queue.
type Handler func(ctx context.Context, batch []Delivery) []Disposition
