package record

import "time"

// An Event is an occurrence that metrics count.
type Event struct {
	Name   EventName
	Stream string
	Count  int
	Age    time.Duration // of EventGap and EventPending
	Reason Reason        // of EventRejected
}

// EventName is the kind of an event.
type EventName string

// The events.
const (
	EventProcessed EventName = "processed"
	EventDuplicate EventName = "duplicate"
	EventHeld      EventName = "held"
	EventRejected  EventName = "rejected"
	EventRetried   EventName = "retried"
	EventConflict  EventName = "conflict"
	EventPublished EventName = "published"
	EventSkipped   EventName = "skipped"
	EventGap       EventName = "gap"
	EventPending   EventName = "pending"

	EventStopped    EventName = "stopped"     // a session whose entry has failed too often
	EventTakeover   EventName = "takeover"    // a session taken from a holder that had not released it
	EventEndWaits   EventName = "end-waits"   // sessions that the end of a stream waits for
	EventUnreadLate EventName = "unread-late" // logs whose oldest unread entry has waited for half of its time
)
