// Package delay keeps messages that become due later than their queue can delay them, and moves
// them to their queues when they are due.
//
// A [Store] holds the items, ordered by due time. A [Keeper] moves the due ones: it sends an item
// to its queue first and deletes it afterwards, so a crash between the two makes a second copy and
// never loses one. The receivers drop the copy by the identity of the message.
//
// # Limits
//
// An item can't be found by its name: nothing deletes a waiting message before it is due. A copy
// with another due time is an item of its own.
package delay

import (
	"context"
	"time"

	"github.com/effectively-once/once/internal/queue"
)

// A Key names an item. Two items with the same key are the same item.
type Key struct {
	// Due is when the item is moved to its queue, to the nanosecond.
	Due time.Time
	// Name is the identity of the message. Every copy of a message has the same name. It may be any
	// text.
	Name string
}

// Same reports whether two keys name the same item.
func (k Key) Same(other Key) bool { return k.Name == other.Name && k.Due.Equal(other.Due) }

// Before reports whether the item of k is moved before that of other.
func (k Key) Before(other Key) bool {
	return k.Due.Before(other.Due) || k.Due.Equal(other.Due) && k.Name < other.Name
}

// An Item is a message that waits until it is due.
type Item struct {
	Key
	// Queue is the name of the queue that gets the message, such as ingress.fifo.
	Queue string
	// Message is sent to the queue unchanged. Its Delay is 0.
	Message queue.Message
}

// A Store holds items until they are deleted. Implementations pass delaytest.Run.
//
// Every method may be called concurrently. If a method fails, it may have been applied in part;
// repeating it is harmless.
type Store interface {
	// Put stores items durably. An item replaces the one with the same key. An item that is too
	// large for the store is an error that wraps [ErrTooLarge], and then none is stored.
	Put(ctx context.Context, items []Item) error
	// Due returns up to limit items that are due before a time, the earliest first, and those that
	// are due at the same time in an order of the store's own. It returns fewer only if there are
	// no more, or if their messages have [PageBytes] or more: see [Full]. If after is not zero, it
	// returns those that come after the item with that key, whether or not the item is still there.
	// The limit is at least 1. Corrupt items are left out, so that one of them does not keep all
	// others waiting: then the error wraps record.ErrCorrupt, and the other items are valid.
	Due(ctx context.Context, after Key, before time.Time, limit int) ([]Item, error)
	// Delete deletes items. Missing ones are ignored.
	Delete(ctx context.Context, keys []Key) error
}

// PageBytes bounds the messages of one [Store.Due]: it returns no item after those that have so
// many bytes together. A hundred messages of the largest size would not fit into the memory of a
// small function.
const PageBytes = 16 << 20

// Full reports whether a [Store.Due] with a limit may have left out items behind these.
func Full(items []Item, limit int) bool {
	bytes := 0
	for i := range items {
		bytes += items[i].Message.Size()
	}
	return len(items) >= limit || bytes >= PageBytes
}

// A Limited is a [Store] with a limit on the size of an item.
type Limited interface {
	// Fits returns the error of a Put of the item, which wraps [ErrTooLarge], if the item is too
	// large for the store. It does no input or output.
	Fits(item *Item) error
}

// Stats counts the items of a store.
type Stats struct {
	// Waiting is how many items there are.
	Waiting int
	// Next is when the earliest one is due; zero if there are none.
	Next time.Time
}

// A Counter is a [Store] that knows how many items it has.
type Counter interface {
	// Stats counts the items as of now.
	Stats(ctx context.Context) (Stats, error)
}
