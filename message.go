package once

import (
	"encoding/json"
	"fmt"

	"github.com/effectively-once/once/internal/record"
)

// MaxBody is the largest body of a message, an effect or a reply, in bytes.
const MaxBody = record.MaxBody

// A Message is one logical message. It may be delivered many times.
type Message struct {
	// Principal is who sent the message, as the caller has authenticated it. It scopes the identity: nobody can replay what another principal was answered.
	// May be empty.
	Principal string
	// Stream is the kind of message: 1 to 64 letters, digits, dots, dashes or underscores. Required.
	Stream string
	// ID is the sender's name for the message, at most 256 bytes. Required, unless Source and Sequence are given: those then make it.
	ID string
	// Group is what the message is about, the unit of state, order and concurrency. Defaults to Source, and without one to ID.
	Group string
	// Source, Epoch and Sequence number the message: the sender's name, its incarnation, and 1, 2, 3 …
	Source   string
	Epoch    uint64
	Sequence uint64
	// DependsOn lists, by source, the last sequence that must have been processed in this group before.
	DependsOn map[string]uint64
	// ContentType is the media type of Body. May be empty.
	ContentType string
	// Headers are the sender's, by name; together at most 16 KiB.
	Headers map[string]string
	// Body is at most [MaxBody] bytes. A handler must not change it.
	Body []byte
}

// Decode reads the body as JSON into v, whatever the content type says. A body with anything after the value is an error.
func (m *Message) Decode(v any) error {
	if err := json.Unmarshal(m.Body, v); err != nil {
		return fmt.Errorf("decode message: %w", err)
	}
	return nil
}

func (m *Message) internal() record.Message {
	return record.Message{
		Principal: m.Principal, Stream: m.Stream, ID: m.ID, Group: m.Group,
		Source: m.Source, Epoch: m.Epoch, Sequence: m.Sequence, DependsOn: m.DependsOn,
		ContentType: m.ContentType, Headers: m.Headers, Body: m.Body,
	}
}

// public shows a handler what it is to see: the identity and the group as they are, not as the sender left them out.
func public(m *record.Message) Message {
	return Message{
		Principal: m.Principal, Stream: m.Stream, ID: m.Identity(), Group: m.GroupName(),
		Source: m.Source, Epoch: m.Epoch, Sequence: m.Sequence, DependsOn: m.DependsOn,
		ContentType: m.ContentType, Headers: m.Headers, Body: m.Body,
	}
}
