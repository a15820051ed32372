package once

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/effectively-once/once/clock"
	"github.com/effectively-once/once/internal/record"
)

// MaxBody is the largest body of a message or of an effect, in bytes. A reply, an entry of a log,
// and a message of a stream with numbers, a log or a pool have at most a quarter of it. Without a
// bucket, a stream on AWS takes no more than that either.
const MaxBody = record.MaxBody

// A Message is one logical message. It may be delivered many times.
type Message struct {
	// Principal is the sender, as authenticated by the caller. It scopes the identity: no principal
	// can replay another one's reply. May be empty.
	Principal string
	// Stream is the kind of message: 1 to 64 letters, digits, dots, dashes or underscores.
	// Required.
	Stream string
	// ID is the sender's name for the message, at most 256 bytes. Required, unless Source and
	// Sequence are set: then they are the identity.
	ID string
	// Group is the unit of state, order and concurrency, such as a customer. Defaults to Source, or
	// to ID if there is no source.
	Group string
	// Source, Epoch and Sequence number the message: the sender's name, its incarnation, and 1, 2,
	// 3 …
	Source   string
	Epoch    uint64
	Sequence uint64
	// DependsOn lists, by source, the last sequence that must have been processed in this group
	// before.
	DependsOn map[string]uint64
	// Parents are the numbers of entries in the group's log that the message answers: it is
	// processed after them. At most 100.
	Parents []uint64
	// Seen is the hybrid time of the last entry that the sender had seen, or 0. The message's own
	// entry gets a later time. A time that is more than a minute ahead is refused.
	Seen clock.Hybrid
	// Via names the other systems that the message came through, the first one first. It is set for
	// handlers, and ignored in a message that is sent.
	Via []string
	// End ends the log of the group with this message: no later message of the group is processed.
	// Without a body, the message ends the log and no handler gets it.
	End bool
	// ContentType is the media type of Body. May be empty.
	ContentType string
	// Headers are the sender's headers, by name; together at most 16 KiB.
	Headers map[string]string
	// Body is at most [MaxBody] bytes. A handler must not change it.
	Body []byte

	// Timer is the name of the timer of the group whose message this is; empty for other messages.
	// See [Attempt.SetTimer]. It is set for handlers, and ignored in a message that is sent.
	Timer string

	// Accepted is when the HTTP API or the queue accepted the message. For a delayed message and the
	// message of a timer, it is when the message was due. Try counts the
	// attempts, this one included. It may be too high after a restart and on AWS, because a queue
	// counts deliveries, and does not know which of them ran. Both are set for handlers, and ignored in
	// a message that is sent.
	Accepted time.Time
	Try      int
}

// Decode reads the body as JSON into v, regardless of the content type. Content after the JSON
// value is an error.
func (m *Message) Decode(v any) error {
	if err := json.Unmarshal(m.Body, v); err != nil {
		return fmt.Errorf("decode message: %w", err)
	}
	return nil
}

func (m *Message) internal() record.Message {
	return record.Message{
		Principal: m.Principal, Stream: m.Stream, ID: m.ID, Group: m.Group,
		Source: m.Source, Epoch: m.Epoch, Sequence: m.Sequence, DependsOn: m.DependsOn, Parents: m.Parents, Seen: m.Seen, End: m.End,
		ContentType: m.ContentType, Headers: m.Headers, Body: m.Body,
	}
}

// public returns the message for a handler, with the resolved identity and group.
func public(m *record.Message) Message {
	return Message{
		Principal: m.Principal, Stream: m.Stream, ID: m.Identity(), Group: m.GroupName(),
		Source: m.Source, Epoch: m.Epoch, Sequence: m.Sequence, DependsOn: m.DependsOn, Parents: m.Parents, Seen: m.Seen, Via: m.Via, End: m.End,
		ContentType: m.ContentType, Headers: m.Headers, Body: m.Body,
		Timer: m.Timer, Accepted: m.Accepted, Try: max(m.Try, 1),
	}
}
