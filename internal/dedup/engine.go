package dedup

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// Config is what an engine is made of. Zero fields take the defaults in their comments.
type Config struct {
	Streams []Stream
	Store   Store
	Queues  Queues
	// Senders are the destinations, by name.
	Senders map[string]Sender
	// Sequenced names the destinations whose deliveries are numbered without gaps for each group: other streams.
	Sequenced map[string]bool
	// Blobs may be nil where no handler makes blobs.
	Blobs Blobs
	// Now defaults to time.Now.
	Now func() time.Time
	// NewID makes unique names for attempts. Defaults to 128 random bits.
	NewID func() string
	// Pause waits before round n (1, 2, …) of a contended batch. Defaults to exponential backoff with full jitter from 5 ms to 1 s.
	Pause func(ctx context.Context, n int) error
	// CallDelay is the delay of the trigger that Call sends before it commits: longer than a call may take. Defaults to 15 minutes.
	CallDelay time.Duration
	// Log defaults to discarding.
	Log *slog.Logger
	// Observe is told what happened; defaults to nothing. It must not block.
	Observe func(Event)
}

// An Event is something worth counting.
type Event struct {
	Name   EventName
	Stream string
	Count  int
	Age    time.Duration // of EventGap and EventPending
	Reason Reason        // of EventRejected
}

// EventName says what happened.
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

// An Engine runs the protocol. It keeps nothing between calls; any number of engines may share a store.
type Engine struct {
	cfg     Config
	streams map[string]Stream
}

// ErrNoStream says that a message names a stream that is not configured.
var ErrNoStream = errors.New("no such stream")

// New checks the configuration. It does no work.
func New(cfg Config) (*Engine, error) { panic("TODO") }

// Stream gives a configured stream with its defaults filled in.
func (e *Engine) Stream(name string) (Stream, bool) {
	s, ok := e.streams[name]
	return s, ok
}

// Process runs a batch of messages through the protocol and tells each one's fate, in their order. Messages of one group are processed in their order, and
// after one that must be tried again, the later ones of its group must be too. Messages may belong to any streams and groups.
func (e *Engine) Process(ctx context.Context, messages []Message) []Outcome { panic("TODO") }

// Call processes one message that no queue would deliver again, on behalf of a caller that waits for the answer. Because a crash after the commit must not strand
// the effects, the trigger to publish them is sent before it, delayed by Config.CallDelay; another one follows the commit.
func (e *Engine) Call(ctx context.Context, m Message) Outcome { panic("TODO") }

// Issue writes the token of a message before the message is put on a queue: the proof under token admission that it is known. stored tells
// whether m is new, known and not done (Issued: enqueue it again, the first try may have died before it did), or done. It returns
// Rejected(key-reuse) or Rejected(deleted) outcomes as a *RefusedError.
func (e *Engine) Issue(ctx context.Context, m Message) (token Token, fresh bool, err error) {
	panic("TODO")
}

// Forget deletes a one-time request: later calls find it deleted. It waits out, by the group's version, attempts that run at the same time.
func (e *Engine) Forget(ctx context.Context, m Message) error { panic("TODO") }

// Refuse puts messages on the dead-letter queue and notes the reason where the message's token is to tell it.
func (e *Engine) Refuse(ctx context.Context, refused []Refused) error { panic("TODO") }

// Status of a message as people see it.
type Status string

// The statuses.
const (
	StatusUnknown   Status = "unknown"
	StatusAccepted  Status = "accepted"
	StatusHeld      Status = "held"
	StatusCommitted Status = "committed"
	StatusDone      Status = "done"
	StatusRejected  Status = "rejected"
	StatusDeleted   Status = "deleted"
)

// A State is what Status found out about a message.
type State struct {
	Status Status
	Reason Reason // of StatusRejected
	Group  string
	Reply  *Reply
	Token  Token
}

// Status looks a message up by its identity, and by source, epoch and sequence where those are given. m.Group may be empty where the token knows the group.
func (e *Engine) Status(ctx context.Context, m Message) (State, error) { panic("TODO") }

// Publish sends the pending effects of groups, marks their messages done and clears them, and tells for each group whether nothing is left.
// Any worker may publish any group any number of times.
func (e *Engine) Publish(ctx context.Context, groups []GroupKey) []error { panic("TODO") }

// Deliver sends one effect that was refused before, under its old identity.
func (e *Engine) Deliver(ctx context.Context, to string, d Delivery) error { panic("TODO") }

// Sweep finishes what crashed workers left of one group: publishes what is pending, clears what is done, drains what can run, acts on gaps.
func (e *Engine) Sweep(ctx context.Context, key GroupKey) error { panic("TODO") }
