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
)
