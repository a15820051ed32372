package wire

import (
	"encoding/json"
	"maps"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

// LetterIdentity returns the identity of a dead letter: of an effect with its destination, or of a
// message with its stream and group. It is empty if the letter names neither.
func LetterIdentity(r *record.Refused) string {
	m := &r.Message
	name := []string{"", m.Principal, m.Stream, m.Group, m.Identity(), m.RedeliveryOf, m.Timer}
	switch {
	case r.Delivery != nil:
		name = []string{"effect", r.To, r.Delivery.Identity}
	case m.ID == "" && m.Source == "":
		return ""
	}
	return strings.Join(name, "\x00")
}

// Letters merges the dead letters of one identity. It implements the Merger of package pebblequeue.
type Letters struct{ Defaults }

// Identity returns the [LetterIdentity] of a dead letter.
func (l Letters) Identity(d *queue.Delivery) string {
	r, _ := FromDeadLetter(d, l.Defaults) // a malformed message has an identity, too
	return LetterIdentity(&r)
}

// Merge returns the letter that stands for two of one identity. The newer one replaces the older
// one. If their contents differ, and one of them was never to be processed under this identity
// (reason key-reuse or invalid), the other one stays. It returns false if neither may replace the
// other: the identity was forgotten between them, and each is a message of its own.
func (l Letters) Merge(old, next *queue.Delivery) (queue.Message, bool) {
	was, _ := FromDeadLetter(old, l.Defaults)
	now, _ := FromDeadLetter(next, l.Defaults)
	merged := next.Message
	switch same := was.Delivery != nil || was.Message.Fingerprint() == now.Message.Fingerprint(); {
	case same:
	case Unprocessable(now.Reason):
		merged = old.Message
	case !Unprocessable(was.Reason):
		return queue.Message{}, false
	}
	n, first := Counted(old, l.Defaults)
	var x meta
	if err := json.Unmarshal([]byte(merged.Attributes[AttrMeta]), &x); err != nil {
		return queue.Message{}, false
	}
	x.Count, x.First = n+1, jsonTime(first)
	merged.Attributes = maps.Clone(merged.Attributes)
	merged.Attributes[AttrMeta] = x.encode()
	return merged, true
}

// Unprocessable reports whether a message that was refused for a reason is no message of its identity:
// the identity belongs to another content, or the message is malformed.
func Unprocessable(r record.Reason) bool {
	return r == record.ReasonKeyReuse || r == record.ReasonInvalid
}

// Counted returns how many refusals a dead letter stands for, and when the first one was.
func Counted(d *queue.Delivery, of Defaults) (n int, first time.Time) {
	var x meta
	if !of.Trusts(d) || json.Unmarshal([]byte(d.Attributes[AttrMeta]), &x) != nil || x.Count < 1 || x.First == nil {
		return 1, d.Sent
	}
	return x.Count, *x.First
}
