// Package envelope converts deliveries to messages for external queues and topics, by the contract
// of package wire. Another system of this kind can receive them, and any other consumer can drop
// duplicates.
//
//	body             the effect's body, unchanged; base64 if SQS does not accept it as text, a dash
//	                 if it is empty: once-meta then has the encoding
//	once-id          the delivery's identity, the same for every copy; if it is longer than 256
//	                 bytes, a tilde and its SHA-256 in hexadecimal
//	once-stream      the sending stream, or the stream in the effect's header once-stream
//	once-group       the group at the destination
//	Content-Type     the effect's content type
//	its own name     each header of the effect, as many as fit
//	once-meta        JSON: the encoding of the body, and the headers that did not fit
//
// # Limits
//
// There are at most ten attributes: SQS accepts no more, and drops a message with more that comes
// from a topic by raw delivery. Besides a content type six headers fit, or five if there is a
// once-meta: traceparent and tracestate first, then by name. A header that is not valid as an
// attribute is put into once-meta too. Other headers whose names begin with once- are reserved by
// the contract and left out, except once-event.
package envelope

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/effectively-once/once/internal/destination/batch"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// Seal returns the message for a delivery. Its message group is the group at the destination, its
// deduplication id the identity. If SQS does not accept one of them, or if it begins with a tilde,
// a tilde and its SHA-256 in hexadecimal is used. If no queue would accept the message, Seal
// returns a [*record.RefusedError].
func Seal(d *record.Delivery) (queue.Message, error) {
	var x meta
	m := queue.Message{Group: name(d.Target), DedupID: name(d.Identity), Attributes: map[string]string{}}
	m.Body, x.Encoding = body(d.Effect.Body)
	put := func(name, value string, instead *string) {
		switch {
		case value == "":
		case queue.ValidText(value):
			m.Attributes[name] = value
		case instead != nil:
			*instead = value
		}
	}
	put(wire.AttrID, identity(d.Identity), &x.ID)
	put(wire.AttrStream, stream(d), nil)
	put(wire.AttrGroup, d.Target, &x.Group)
	put(contentType, d.Effect.ContentType, &x.ContentType)
	x.Headers = headers(d.Effect.Headers, m.Attributes, x.needed())
	if x.needed() {
		m.Attributes[wire.AttrMeta] = x.encode()
	}
	if err := m.Validate(".fifo"); err != nil {
		return m, &record.RefusedError{Reason: record.ReasonInvalid, Detail: err.Error()}
	}
	return m, nil
}

// Service returns the sender of sealed deliveries to a queue or a topic. bytes and put are those of
// [batch.Service].
func Service(name string, bytes int, ordered bool, put func(ctx context.Context, messages []*queue.Message) ([]error, error)) batch.Service[*queue.Message] {
	return batch.Service[*queue.Message]{Name: name, Bytes: bytes, Ordered: ordered, Put: put, Entry: func(d *record.Delivery) (*queue.Message, int, error) {
		m, err := Seal(d)
		return &m, m.SentSize(), err
	}}
}

// identity returns the id of the message at a receiving system. No identity begins with a tilde,
// because stream names do not.
func identity(id string) string {
	if len(id) <= record.MaxName {
		return id
	}
	return hashed(id)
}

// name returns a message group or a deduplication id.
func name(s string) string {
	if queue.ValidGroup(s) && s[0] != '~' {
		return s
	}
	return hashed(s)
}

func hashed(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "~" + hex.EncodeToString(sum[:])
}

// stream returns the stream of the message at a receiving system.
func stream(d *record.Delivery) string {
	for name, value := range d.Effect.Headers {
		if strings.EqualFold(name, wire.AttrStream) && record.ValidStream(value) == nil {
			return value
		}
	}
	return d.Stream
}

func body(b []byte) (text, encoding string) {
	switch s := string(b); {
	case s == "":
		return "-", "empty"
	case queue.ValidText(s):
		return s, ""
	default:
		return base64.StdEncoding.EncodeToString(b), "base64"
	}
}
