package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

// Sender is the sender that the embedded queues report for messages of ToQueue, ToTrigger and
// ToRedelivery: the trusted sender of an embedded system.
const Sender = "once"

// ToQueue returns a message for the ingress queue. Its FIFO group is the message's group within its
// stream. Its deduplication id is random. If it were the message's identity, the queue would
// silently drop a copy that is sent within five minutes for a good reason, such as a redriven dead
// letter, or key reuse that must be reported.
func ToQueue(m record.Message) queue.Message { return toQueue(m, "", 0) }

// toQueue is ToQueue for a dead letter with the session and the number of its entry.
func toQueue(m record.Message, session string, of uint64) queue.Message {
	body, encoding := encodeBody(m.Body)
	x := meta{
		ContentType: m.ContentType, Headers: m.Headers, Encoding: encoding,
		Principal: m.Principal, Route: m.Route, Parents: m.Parents, Time: m.Seen, Via: m.Via, Void: m.Void, End: m.End,
		RedeliveryOf: m.RedeliveryOf, Session: session, Number: of, Timer: m.Timer, TimerNumber: m.TimerNumber,
	}
	if m.Content != [sha256.Size]byte{} {
		x.Content = m.Content[:]
	}
	x.Accepted, x.NotBefore = jsonTime(m.Accepted), jsonTime(m.NotBefore)
	attributes := make(map[string]string, 4)
	put := func(name, value string, instead *string) {
		switch {
		case value == "":
		case queue.ValidText(value):
			attributes[name] = value
		case instead != nil:
			*instead = value
		}
	}
	put(AttrStream, m.Stream, nil)
	put(AttrID, m.ID, &x.ID)
	put(AttrGroup, m.Group, &x.Group)
	put(AttrSource, m.Source, &x.Source)
	put(AttrEpoch, number(m.Epoch), nil)
	put(AttrSequence, number(m.Sequence), nil)
	put(AttrDependsOn, formatDependsOn(m.DependsOn), nil)
	attributes[AttrMeta] = x.encode()
	return envelope(body, attributes, m.GroupKey())
}

// jsonTime returns a time that JSON can hold, or nil if t is zero or of a year that JSON lacks.
func jsonTime(t time.Time) *time.Time {
	if t = t.UTC(); t.IsZero() || t.Year() < 0 || t.Year() > 9999 {
		return nil
	}
	return &t
}

func envelope(body string, attributes map[string]string, key record.GroupKey) queue.Message {
	return queue.Message{Body: body, Attributes: attributes, Group: fifoGroup(key), DedupID: uuid.NewString(), Sender: Sender}
}

func number(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

// FIFOGroup returns the group of ToQueue's message for m.
func FIFOGroup(m *record.Message) string { return fifoGroup(m.GroupKey()) }

// fifoGroup returns the message group for a group of a stream: stream/group, or stream/~hash if SQS
// does not accept that. Stream names contain no slash, so groups of two streams never collide.
func fifoGroup(key record.GroupKey) string {
	group := key.Stream + "/" + key.Group
	if !strings.HasPrefix(key.Group, "~") && queue.ValidGroup(group) {
		return group
	}
	sum := sha256.Sum256([]byte(key.Group))
	group = key.Stream + "/~" + hex.EncodeToString(sum[:16])
	if queue.ValidGroup(group) {
		return group
	}
	// of an invalid message that goes to the dead-letter queue
	sum = sha256.Sum256([]byte(key.Path()))
	return "~" + hex.EncodeToString(sum[:16])
}

// ToTrigger returns a message for the publish queue: publish the pending effects of the group.
func ToTrigger(key record.GroupKey) queue.Message {
	return envelope(encodeJSON(trigger{Publish: &publishJSON{key.Stream, key.Group}}), map[string]string{AttrMeta: (&meta{Form: formTrigger}).encode()}, key)
}

// ToRedelivery returns a message for the publish queue: send this effect, which its destination
// refused before. In a first-in-first-out queue it follows the other effects of its group to the
// same destination. An effect without a number has no order and follows none.
func ToRedelivery(to string, d record.Delivery) queue.Message {
	order := d.Group
	if d.Number == 0 {
		order = d.Identity
	}
	names := meta{Form: formEffect, ID: d.Identity, Stream: d.Stream, Group: d.Group, To: to}
	return envelope(encodeJSON(trigger{Deliver: &deliverJSON{to, toDeliveryJSON(d)}}), map[string]string{AttrMeta: names.encode()}, record.GroupKey{Stream: d.Stream, Group: order + "@" + to})
}
