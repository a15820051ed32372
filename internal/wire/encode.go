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

// Sender is whom the embedded queues name as the sender of what ToQueue and its like have made: the trusted sender of an embedded system.
const Sender = "once"

// ToQueue gives a message for the ingress queue. Its FIFO group is the message's group within its stream. Its deduplication id is random: a queue that
// took the message's identity for it would silently drop what is sent again for a good reason within five minutes, such as a redriven dead letter, or key
// reuse that is to be refused aloud.
func ToQueue(m record.Message) queue.Message {
	body, encoding := encodeBody(m.Body)
	x := meta{
		ContentType: m.ContentType, Headers: m.Headers, Encoding: encoding,
		Principal: m.Principal, Route: m.Route,
	}
	if accepted := m.Accepted.UTC(); !accepted.IsZero() && accepted.Year() >= 0 && accepted.Year() <= 9999 { // JSON has no other years
		x.Accepted = &accepted
	}
	attributes := map[string]string{}
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
	put(AttrDependsOn, FormatDependsOn(m.DependsOn), nil)
	attributes[AttrMeta] = encodeJSON(x)
	return envelope(body, attributes, m.GroupKey())
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

// fifoGroup names a group of a stream as a message group: stream/group, or stream/~hash where SQS would not take that. No stream has a slash in
// its name, so groups of two streams never meet.
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
	sum = sha256.Sum256([]byte(key.Path())) // of an invalid message that goes to the dead-letter queue
	return "~" + hex.EncodeToString(sum[:16])
}

// ToTrigger gives a message for the publish queue: publish what is pending in the group.
func ToTrigger(key record.GroupKey) queue.Message {
	return envelope(encodeJSON(trigger{Publish: &publishJSON{key.Stream, key.Group}}), form(formTrigger), key)
}

// ToRedelivery gives a message for the publish queue: send this effect, which its destination refused before. In a first-in-first-out queue it stands behind those of its
// group to the same destination; one without a number has no order, and stands behind no other.
func ToRedelivery(to string, d record.Delivery) queue.Message {
	order := d.Group
	if d.Number == 0 {
		order = d.Identity
	}
	return envelope(encodeJSON(trigger{Deliver: &deliverJSON{to, toDeliveryJSON(d)}}), form(formEffect), record.GroupKey{Stream: d.Stream, Group: order + "@" + to})
}

func form(name string) map[string]string {
	return map[string]string{AttrMeta: encodeJSON(meta{Form: name})}
}

// millis reads a time that AWS wrote.
func millis(text string) time.Time {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 || n > 1<<48 {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}
