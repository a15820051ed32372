// Package envelope translates deliveries into messages for queues and topics outside, by the contract of package wire, so that another system of this kind can take them in
// and any other consumer finds what it needs to drop duplicates.
//
//	body             the effect's, as it is; in base64 where SQS takes no such text, and a dash where it is empty: once-meta then says so
//	once-id          the delivery's identity, the same however often it is sent; behind a tilde its SHA-256 in hexadecimal where it has more than 256 bytes
//	once-stream      the stream that sends, or the one that the effect's header once-stream names
//	once-group       the group at the destination
//	Content-Type     the effect's content type
//	its own name     each header of the effect, as many as fit
//	once-meta        JSON: the encoding of the body, and the headers that did not fit
//
// # Limits
//
// There are ten attributes at most: SQS takes no more, and drops what comes with more from a topic by raw delivery. Beside a content type six headers fit, or five
// where there is a once-meta: traceparent and tracestate first, then by name. A header whose name or value is none for an attribute goes to once-meta too. Other headers
// that begin with once- are the contract's names and are left out, but for once-event.
package envelope

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/wire"
)

// Seal gives the message for a delivery. Its message group is the group at the destination, its deduplication id the identity; where SQS takes such a text for neither, or
// it begins with a tilde, a tilde and the SHA-256 in hexadecimal. What no queue would take is a [*record.RefusedError].
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

// Size is the size of a message as SQS and SNS count it.
func Size(m *queue.Message) int {
	n := len(m.Body)
	for name, value := range m.Attributes {
		n += len(name) + len("String") + len(value)
	}
	return n
}

// identity is the id of the message at a system that takes it in. Nobody's identity begins with a tilde: streams do not.
func identity(id string) string {
	if len(id) <= record.MaxName {
		return id
	}
	return hashed(id)
}

// name is a message group or a deduplication id.
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

// stream is the stream at a system that takes the message in.
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
