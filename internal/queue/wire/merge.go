package wire

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

// LetterIdentity returns the identity of a dead letter: of an effect with its destination, or of a
// message with its stream and group. It is empty if the letter names neither. Identities may recur
// with other contents, see [LetterContent].
func LetterIdentity(r *record.Refused) string {
	m := &r.Message
	name := []string{"", m.Principal, m.Stream, m.Group, m.Identity(), m.RedeliveryOf, m.Timer, r.Session}
	switch {
	case r.Delivery != nil:
		// after a group was forgotten or dropped, its numbers begin again
		name = []string{"effect", r.To, r.Delivery.Identity, number(r.Delivery.Incarnation)}
	case m.ID == "" && m.Source == "":
		return ""
	}
	return strings.Join(name, "\x00")
}

// LetterContent returns a hash of what the message or the effect of a dead letter says.
func LetterContent(r *record.Refused) record.Fingerprint {
	if r.Delivery == nil {
		return r.Message.Fingerprint()
	}
	j := toDeliveryJSON(*r.Delivery)
	// these say how it is sent, and may change
	j.Hash, j.Retention, j.Effect.To, j.Effect.Chain, j.Effect.NotBefore = "", 0, nil, nil, time.Time{}
	return sha256.Sum256([]byte(encodeJSON(j)))
}

// Letters merges the dead letters of one identity. It implements the Merger of package pebblequeue.
type Letters struct{ Defaults }

// Identity returns the [LetterIdentity] of a dead letter, and its stream.
func (l Letters) Identity(d *queue.Delivery) (name, stream string) {
	r, _ := FromDeadLetter(d, l.Defaults) // a malformed message has an identity, too
	if stream = r.Message.Stream; r.Delivery != nil {
		stream = r.Delivery.Stream
	}
	return LetterIdentity(&r), strings.ToValidUTF8(stream[:min(len(stream), record.MaxStreamName)], "")
}

// Merge returns the letter that stands for two of one identity. The newer one replaces the older
// one. But if only one of them can be processed under this identity, it is that one. It returns
// false if neither may replace the other: the identity was forgotten between them, and each is a
// message of its own.
func (l Letters) Merge(old, next *queue.Delivery) (queue.Message, bool) {
	was, err1 := FromDeadLetter(old, l.Defaults)
	now, err2 := FromDeadLetter(next, l.Defaults)
	never, neverNow := err1 != nil || Unprocessable(was.Reason), err2 != nil || Unprocessable(now.Reason)
	merged := next.Message
	switch same := LetterContent(&was) == LetterContent(&now); {
	case neverNow && (!never || !same):
		merged = old.Message
	case !never && !same:
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
