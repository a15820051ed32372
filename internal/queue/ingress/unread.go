package ingress

import (
	"cmp"
	"maps"
	"slices"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// Unread returns a message for the dead-letter queue, or for a later [Source.Again], with all of a
// delivery that was not read. Its attributes become headers. Its id is that of the delivery.
func (s *Source) Unread(d *queue.Delivery) record.Message {
	if slices.ContainsFunc(d.Binary, wire.Reserved) { // which no header can carry: it stays invalid
		m, _, _ := wire.FromQueue(d, wire.Defaults{Stream: s.stream})
		m.Stream, m.Principal = s.stream, s.Principal()
		return m
	}
	headers := maps.Clone(d.Attributes)
	if headers == nil {
		headers = map[string]string{}
	}
	if queue.FIFO(d.Queue) && headers[wire.AttrGroup] == "" && d.Group != "" {
		headers[wire.AttrGroup] = d.Group
	}
	headers[wire.HeaderUnread] = s.name
	return record.Message{
		Stream: s.stream, Principal: s.Principal(), ID: cmp.Or(d.DedupID, d.ID), Headers: headers, Body: []byte(d.Body), Accepted: d.Sent,
	}
}

// UnreadOf returns the name of the source of a message of [Source.Unread], or "". It believes only
// messages with the principal of that source, which no caller can have.
func UnreadOf(m *record.Message) string {
	name := m.Headers[wire.HeaderUnread]
	if name == "" || m.Principal != principals+name {
		return ""
	}
	return name
}

// Again reads a message of [Source.Unread] that was redriven: the configuration may be right now.
func (s *Source) Again(m *record.Message) (Read, error) {
	attributes := maps.Clone(m.Headers)
	delete(attributes, wire.HeaderUnread)
	return s.Read(&queue.Delivery{
		Message: queue.Message{Body: string(m.Body), Attributes: attributes}, ID: m.ID, Receives: max(m.Try, 1), Sent: m.Accepted,
	})
}
