package record

import "time"

// An Event is an occurrence that metrics count.
type Event struct {
	Name   EventName
	Stream string
	Count  int
	Age    time.Duration // of EventGap, EventPending and, for its duration, EventAccepted
	Reason Reason        // of EventRejected and EventDenied
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
	// EventDropped counts dead letters that were dropped because of their age or number.
	EventDropped EventName = "dead-letter-dropped"
	EventGap     EventName = "gap"
	EventPending EventName = "pending"

	// EventHandlerFailed counts runs of a handler that ended with an error or a panic. A refusal by
	// the handler is a decision and not counted.
	EventHandlerFailed EventName = "handler-failed"

	// The events of the HTTP API, each for one message, or for a request that is not one of
	// messages. Stream is empty if the request names no stream, or an unknown one.

	EventAccepted EventName = "accepted" // durable, and new as far as the HTTP API knows
	EventReplayed EventName = "replayed" // a repetition
	EventRefused  EventName = "refused"  // by an answer that blames the request
	EventFailed   EventName = "failed"   // by a failure of the system: 500 or 503

	// EventDenied counts requests to a server that are refused before their content matters: their
	// caller is not known, may not do this, or sends too many. The reason says which.
	EventDenied EventName = "denied"

	EventStopped    EventName = "stopped"     // a session whose entry has failed too often
	EventTakeover   EventName = "takeover"    // a session taken from a holder that had not released it
	EventEndWaits   EventName = "end-waits"   // sessions that the end of a stream waits for
	EventUnreadLate EventName = "unread-late" // logs whose oldest unread entry has waited for half of its time
)
