package wire

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/effectively-once/once/clock"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

// Defaults configure the decoding of a queue's messages.
type Defaults struct {
	// Stream is the stream that the queue is bound to; it is empty if messages name their streams.
	Stream string
	// Trusted lists the SenderIds that may set principal, route and time of acceptance: the role
	// ids of the system's own functions, each with all of its sessions, and [Sender] on embedded
	// queues. By default there are none.
	Trusted []string
}

// Trusts reports whether a message has a trusted sender. It compares the whole SenderId, and the
// role id before the session's name.
func (d Defaults) Trusts(received *queue.Delivery) bool {
	role, _, _ := strings.Cut(received.Sender, ":")
	return received.Sender != "" && (slices.Contains(d.Trusted, received.Sender) || slices.Contains(d.Trusted, role))
}

// Origin is the source of a message's identity.
type Origin uint8

// The origins.
const (
	// FromSender: once-id, or source and sequence.
	FromSender Origin = iota
	// FromDeduplicationID: the MessageDeduplicationId.
	FromDeduplicationID
	// FromMessageID: the queue's own id. It identifies one send: if the sender retries, the copy
	// has another id. Worth a warning.
	FromMessageID
)

// FromQueue decodes a message from an ingress queue. The error is a [*record.InvalidError], or that
// of the delivery's body, which may be read later; the parts that could be decoded are returned
// with it.
func FromQueue(received *queue.Delivery, d Defaults) (record.Message, Origin, error) {
	r := reader{received: received, trusted: d.Trusts(received)}
	r.fail(received.Unread)
	r.message.Accepted = accepted(received.Sent)
	r.foreign()
	own := r.meta()
	r.names(d.Stream, own)
	r.numbers()
	r.causes()
	origin := r.identity()
	unread := r.trusted && r.message.Headers[HeaderUnread] != ""
	for name := range r.message.Headers {
		if Reserved(name) && !unread {
			r.fail(&record.InvalidError{Field: name, Rule: "was malformed when it was first received"})
		}
	}
	if r.err == nil && r.message.Stream == "" {
		r.fail(&record.InvalidError{Field: AttrStream, Rule: noStreamRule})
	}
	if r.err == nil {
		r.fail(r.message.Validate())
	}
	return r.message, origin, r.err
}

// noStreamRule explains what a message lacks whose sender can't set attributes.
const noStreamRule = "is missing: this queue is for all streams, so each message must name its stream in that attribute. " +
	"For senders that can't set attributes, bind a queue to a stream: ingress: {STREAM: {from: …}} in once.yaml"

// A reader collects a message and the first error.
type reader struct {
	received *queue.Delivery
	trusted  bool
	message  record.Message
	err      error
}

func (r *reader) fail(err error) {
	if r.err == nil && err != nil {
		r.err = err
	}
}

// malformed records an attribute that can't be parsed, and keeps it as a header, so that the
// message stays invalid and the attribute visible.
func (r *reader) malformed(name, rule string) {
	r.header(name, r.text(name))
	r.fail(&record.InvalidError{Field: name, Rule: rule})
}

func (r *reader) header(name, value string) {
	if r.message.Headers == nil {
		r.message.Headers = map[string]string{}
	}
	r.message.Headers[name] = value
}

// text returns an attribute of the contract, or the empty string.
func (r *reader) text(name string) string { return r.received.Attributes[name] }

// foreign copies the attributes that are not in the contract. If a name is reserved but unknown, it
// is malformed: a misspelt once-group would break an order silently.
func (r *reader) foreign() {
	names := slices.AppendSeq(slices.Clone(r.received.Binary), maps.Keys(r.received.Attributes))
	slices.Sort(names)
	for _, name := range names {
		value, text := r.received.Attributes[name]
		switch {
		case Reserved(name) && !known(name):
			r.malformed(name, "is not an attribute of this contract")
		case Reserved(name) && !text:
			r.malformed(name, "must be of the type String or Number")
		case Reserved(name) || !text:
		case strings.EqualFold(name, "content-type"):
			r.message.ContentType = value
		default:
			r.header(name, value)
		}
	}
}

// meta parses once-meta and the body. It reports whether there was a valid once-meta: then the
// message was made by ToQueue, or by a sender that writes the same.
func (r *reader) meta() bool {
	text := r.text(AttrMeta)
	if text == "" {
		r.message.Body = []byte(r.received.Body)
		return false
	}
	var x meta
	if err := json.Unmarshal([]byte(text), &x); err != nil {
		r.message.Body = []byte(r.received.Body)
		r.malformed(AttrMeta, "must be a JSON object as documented")
		return false
	}
	for name, value := range x.Headers {
		r.header(name, value)
	}
	if x.ContentType != "" {
		r.message.ContentType = x.ContentType
	}
	r.message.ID, r.message.Group, r.message.Source, r.message.Via, r.message.Void = x.ID, x.Group, x.Source, x.Via, x.Void
	r.message.End = x.End
	if r.message.Parents, r.message.Seen = x.Parents, x.Time; len(x.Parents) > record.MaxParents {
		r.message.Parents = nil
		r.malformed(AttrMeta, "must have at most "+strconv.Itoa(record.MaxParents)+" parents")
	}
	if r.received.Unread != nil {
		return true
	}
	body, err := decodeBody(r.received.Body, x.Encoding)
	if r.message.Body = body; err != nil {
		r.header(AttrMeta, text)
		r.fail(err)
	}
	if r.trusted {
		r.believe(x)
	}
	return true
}

// believe copies the fields that only a trusted sender may set.
func (r *reader) believe(x meta) {
	r.message.Principal, r.message.Route, r.message.RedeliveryOf = x.Principal, x.Route, x.RedeliveryOf
	r.message.Timer, r.message.TimerNumber = x.Timer, x.TimerNumber
	copy(r.message.Content[:], x.Content)
	if x.Accepted != nil {
		r.message.Accepted = *x.Accepted
	}
	if x.NotBefore != nil {
		r.message.NotBefore = *x.NotBefore
	}
}

func (r *reader) names(bound string, own bool) {
	m := &r.message
	for _, n := range []struct {
		name string
		to   *string
	}{{AttrStream, &m.Stream}, {AttrID, &m.ID}, {AttrGroup, &m.Group}, {AttrSource, &m.Source}} {
		if value := r.text(n.name); value != "" {
			*n.to = value
		}
	}
	m.Stream = cmp.Or(m.Stream, bound)
	// The message groups of ToQueue are scoped by stream, and repeat the attributes. In a standard
	// queue a message group is for fairness between senders, and orders nothing.
	if m.Group == "" && !own && queue.FIFO(r.received.Queue) {
		m.Group = r.received.Group
	}
}

// numbers reads the epoch and the sequence.
func (r *reader) numbers() {
	for _, n := range []struct {
		name  string
		to    *uint64
		least uint64
	}{{AttrEpoch, &r.message.Epoch, 0}, {AttrSequence, &r.message.Sequence, 1}} {
		text := r.text(n.name)
		if text == "" {
			continue
		}
		value, ok := parseNumber(text)
		if !ok || value < n.least {
			r.malformed(n.name, "must be a decimal number of at least "+strconv.FormatUint(n.least, 10)+", without sign or leading zeros")
			continue
		}
		*n.to = value
	}
	if text := r.text(AttrDependsOn); text != "" {
		depends, err := ParseDependsOn([]string{text})
		if err != nil {
			r.malformed(AttrDependsOn, dependsRule)
			return
		}
		r.message.DependsOn = depends
	}
}

// causes reads the parents, the time that the sender has seen, and whether the message ends the
// log.
func (r *reader) causes() {
	if text := r.text(AttrParents); text != "" {
		parents, err := ParseParents(text)
		if err != nil {
			r.malformed(AttrParents, parentsRule)
			return
		}
		r.message.Parents = parents
	}
	if text := r.text(AttrTime); text != "" {
		seen, err := clock.ParseHybrid(text)
		if err != nil {
			r.malformed(AttrTime, TimeRule)
			return
		}
		r.message.Seen = seen
	}
	switch r.text(AttrEnd) {
	case "":
	case "true":
		r.message.End = true
	default:
		r.malformed(AttrEnd, "must be true")
	}
}

// parseNumber parses a decimal number without sign or leading zeros.
func parseNumber(text string) (uint64, bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil && strconv.FormatUint(n, 10) == text
}

// identity sets the id of a message without one, and returns its origin.
func (r *reader) identity() Origin {
	m := &r.message
	switch {
	case m.ID != "" || m.Source != "":
		return FromSender
	case r.received.DedupID != "":
		m.ID = r.received.DedupID
		return FromDeduplicationID
	default:
		m.ID = r.received.ID
		return FromMessageID
	}
}

// accepted returns the time at which a queue accepted a message, in the precision of SQS.
func accepted(sent time.Time) time.Time {
	if sent.IsZero() {
		return time.Time{}
	}
	return sent.UTC().Truncate(time.Millisecond)
}
