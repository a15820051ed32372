package deadletter

import (
	"slices"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// A Letter is a received dead letter.
type Letter struct {
	queue.Delivery
	// Queue is the name of the dead-letter queue.
	Queue string
	// Count is how many refusals the letter stands for, and First is when the first one was.
	Count int
	First time.Time
	// Refused is the decodable part of the letter; the reason is always set.
	Refused record.Refused
	// Err is the decoding error; for a trigger, which can be redriven anyway, it is
	// [wire.ErrTrigger].
	Err error
}

// Read decodes a delivery from a dead-letter queue. The principal and the time of acceptance are
// accepted from trusted senders only; see [wire.Defaults].
func Read(queueName string, d queue.Delivery, trusted []string) Letter {
	l := Letter{Delivery: d, Queue: queueName}
	of := wire.Defaults{Trusted: trusted}
	l.Refused, l.Err = wire.FromDeadLetter(&d, of)
	l.Count, l.First = wire.Counted(&d, of)
	return l
}

// Reason returns why the letter was refused.
func (l *Letter) Reason() string { return string(l.Refused.Reason) }

// A Filter selects letters. An empty field matches every letter.
type Filter struct {
	// Stream and Reason are those of the letter.
	Stream string `json:"stream,omitempty"`
	Reason string `json:"reason,omitempty"`
	// ID is that of the message or of its first entry in a pool, source/epoch/sequence of a
	// numbered message, that of the effect, or the queue's id of the letter.
	ID string `json:"id,omitempty"`
	// MessageIDs contains the queue's id of the letter.
	MessageIDs []string `json:"message_ids,omitempty"`
}

// Equal reports whether two filters select the same letters.
func (f Filter) Equal(g Filter) bool {
	return f.Stream == g.Stream && f.Reason == g.Reason && f.ID == g.ID && slices.Equal(f.MessageIDs, g.MessageIDs)
}

// Matches reports whether the letter has all that the filter asks for.
func (l *Letter) Matches(f Filter) bool {
	m, d := &l.Refused.Message, l.Refused.Delivery
	stream := m.Stream
	if d != nil {
		stream = d.Stream
	}
	switch {
	case f.Stream != "" && f.Stream != stream, f.Reason != "" && f.Reason != l.Reason():
		return false
	case len(f.MessageIDs) > 0 && !slices.Contains(f.MessageIDs, l.ID):
		return false
	case f.ID == "" || f.ID == l.ID:
		return true
	case d != nil:
		return f.ID == d.Identity
	}
	return f.ID == m.ID || f.ID == m.RedeliveryOf || m.Source != "" && f.ID == m.Number()
}

// Info returns the letter in the form for people and scripts. Names that are too long for any
// message are cut.
func (l *Letter) Info() admin.DeadLetter {
	out := admin.DeadLetter{Queue: l.Queue, Reason: l.Reason(), Detail: l.Refused.Detail, Sent: l.Sent, MessageID: l.ID}
	if l.Count > 1 {
		out.Count, out.First = l.Count, &l.First
	}
	if l.Err != nil && l.Unread == nil && out.Detail == "" {
		out.Detail = l.Err.Error()
	}
	m := l.Refused.Message
	out.Stream, out.ID, out.Group, out.Source, out.Epoch, out.Sequence = m.Stream, m.ID, m.Group, m.Source, m.Epoch, m.Sequence
	out.Key, out.Session, out.Number = m.RedeliveryOf, l.Refused.Session, l.Refused.Number
	if d := l.Refused.Delivery; d != nil {
		out.Stream, out.ID, out.Group, out.Destination = d.Stream, d.Identity, d.Group, l.Refused.To
	}
	cut(&out.Stream, record.MaxStreamName)
	for _, name := range []*string{&out.ID, &out.Key, &out.Session, &out.Group, &out.Source, &out.Destination, &out.Reason} {
		cut(name, 2*record.MaxName) // the id of an effect contains a stream and a group
	}
	return out
}

// cut shortens a name from an attribute, which has no limit.
func cut(name *string, most int) {
	if len(*name) > most {
		*name = strings.ToValidUTF8((*name)[:most], "") + "…"
	}
}

// InfoWithContent returns Info with the headers and the first most bytes of the body; see
// [admin.Content.SetBody]. If the body could not be read, the detail says why. If most is 0, it
// returns Info.
func (l *Letter) InfoWithContent(most int) admin.DeadLetter {
	out := l.Info()
	if most == 0 {
		return out
	}
	m := &l.Refused.Message
	c := &admin.Content{ContentType: m.ContentType, Headers: m.Headers}
	body := m.Body
	switch d := l.Refused.Delivery; {
	case d != nil:
		c.ContentType, c.Headers, body = d.Effect.ContentType, d.Effect.Headers, d.Effect.Body
	case m.Stream == "" && len(body) == 0: // a trigger, or an effect that can't be decoded
		body = []byte(l.Body)
	}
	if l.Unread != nil {
		body = nil
		out.Detail = strings.TrimPrefix(out.Detail+"; "+l.Unread.Error(), "; ")
	}
	c.SetBody(body, most)
	out.Content = c
	return out
}
