package handler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/effectively-once/once/internal/record"
)

// A Request asks a handler to process messages of one group in their order, on its state.
type Request struct {
	Stream string `json:"stream"`
	Group  string `json:"group"`
	// Version is that of the group's record. An answer counts only if no other commit of the group
	// came before it.
	Version uint64 `json:"version"`
	// Attempt is unique to this request.
	Attempt string `json:"attempt"`
	// State is the state that the last commit left, or null if there is none.
	State json.RawMessage `json:"state"`
	// Messages has at least one message.
	Messages []Message `json:"messages"`
}

// A Message is one message of a request. Empty members are left out.
type Message struct {
	ID string `json:"id"`
	// Try counts the deliveries of the message, from 1 on.
	Try int `json:"try"`
	// Accepted is when the system accepted the message.
	Accepted    *time.Time        `json:"accepted,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Source      string            `json:"source,omitempty"`
	Epoch       uint64            `json:"epoch,omitempty"`
	Sequence    uint64            `json:"sequence,omitempty"`
	// Timer is the name of the timer, if the message is one that the handler set.
	Timer string `json:"timer,omitempty"`
	// Body is JSON if the content type is JSON, otherwise a string; it is left out if the body is
	// empty, or is in BodyBase64 because it is not UTF-8 or not the JSON of its content type.
	Body       json.RawMessage `json:"body,omitempty"`
	BodyBase64 []byte          `json:"body_base64,omitempty"`
}

// NewMessage returns a message in the form of a request.
func NewMessage(m *record.Message) (Message, error) {
	out := Message{
		ID: m.Identity(), Try: max(m.Try, 1), ContentType: m.ContentType, Headers: m.Headers,
		Source: m.Source, Epoch: m.Epoch, Sequence: m.Sequence, Timer: m.Timer,
	}
	if !m.Accepted.IsZero() {
		at := m.Accepted.UTC()
		out.Accepted = &at
	}
	var err error
	out.Body, out.BodyBase64, err = setBody(m.ContentType, m.Body)
	return out, err
}

// Encode returns the request as one line of JSON, and the ids of the messages in it. It stops before
// a message with which the request would be larger than [MaxRequest], but never before the first
// one.
func (r *Request) Encode() (text []byte, ids []string, err error) {
	if len(r.State) > 0 && (!json.Valid(r.State) || !utf8.Valid(r.State)) {
		return nil, nil, fmt.Errorf("encode request: the state of group %s is not JSON: another kind of handler wrote it", record.GroupKey{Stream: r.Stream, Group: r.Group})
	}
	short := *r
	short.Messages = []Message{}
	if len(short.State) == 0 {
		short.State = json.RawMessage("null")
	}
	var b bytes.Buffer
	encode := json.NewEncoder(&b)
	encode.SetEscapeHTML(false) // it would lengthen bodies
	if err := encode.Encode(&short); err != nil {
		return nil, nil, fmt.Errorf("encode request: %w", err)
	}
	b.Truncate(b.Len() - len("]}\n"))
	ids = make([]string, 0, len(r.Messages))
	for i := range r.Messages {
		end := b.Len()
		if i > 0 {
			b.WriteByte(',')
		}
		if err := encode.Encode(&r.Messages[i]); err != nil {
			return nil, nil, fmt.Errorf("encode request: %w", err)
		}
		b.Truncate(b.Len() - len("\n"))
		if i > 0 && b.Len() > MaxRequest {
			b.Truncate(end)
			break
		}
		ids = append(ids, r.Messages[i].ID)
	}
	b.WriteString("]}")
	return b.Bytes(), ids, nil
}
