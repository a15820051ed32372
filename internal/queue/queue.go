// Package queue is the port to a queue with the semantics of SQS: at-least-once delivery, visibility timeouts, delays, message groups that block at
// their first failure, and dead letters.
package queue

import (
	"context"
	"time"
)

// A Queue holds messages until they are deleted. Implementations pass queuetest.Run.
//
// Every method may be called concurrently. Every method may fail after it was applied; repeating Send makes a second message, repeating the others is harmless.
type Queue interface {
	// Name is the queue's name; that of a first-in-first-out queue ends in ".fifo".
	Name() string
	// Send puts messages, durably, and gives a result for each. On a FIFO queue each needs a group. Any number of messages may be sent at once.
	Send(ctx context.Context, messages []Message) []SendResult
	// Receive takes up to max messages and hides them for the visibility time. It waits up to wait for the first one and returns nothing without an
	// error when none came. On a FIFO queue, while a message of a group is hidden no other message of the group is given out by another call; one call may
	// take several of a group, in order.
	Receive(ctx context.Context, max int, visibility, wait time.Duration) ([]Delivery, error)
	// Delete acknowledges. An unknown, expired or repeated receipt is fine. A result for each.
	Delete(ctx context.Context, receipts []string) []error
	// ChangeVisibility hides a received message for a time from now; 0 gives it back at once.
	ChangeVisibility(ctx context.Context, receipt string, visibility time.Duration) error
}

// A Message is what is put on a queue.
type Message struct {
	Body       string
	Attributes map[string]string // at most 10, names and values as SQS allows
	// Group and DedupID belong to FIFO queues. DedupID only matters where the queue deduplicates.
	Group   string
	DedupID string
	Delay   time.Duration // not on FIFO queues
	// Sender is who sends, as the queue authenticates it; only in-process senders of an embedded queue set it.
	Sender string
}

// A SendResult is the fate of one sent message.
type SendResult struct {
	ID             string
	SequenceNumber string // FIFO only
	Err            error
}

// A Delivery is one receipt of a message.
type Delivery struct {
	Message
	ID             string
	Receipt        string
	SequenceNumber string
	Receives       int // this one included
	Sent           time.Time
}
