package wire

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-lambda-go/events"

	"github.com/effectively-once/once/internal/record"
)

// Defaults is what the receiver of a queue knows about it.
type Defaults struct {
	// Stream is the stream that the queue is bound to; empty where messages name theirs.
	Stream string
	// Trusted lists the SenderIds whose word on principal, route and acceptance is believed: the role ids of the system's own functions, each
	// with all of its sessions, and [Sender] on embedded queues. Defaults to nobody.
	Trusted []string
}

// Trusts reports whether a message was sent by somebody trusted. It compares with the whole SenderId, or with the role id in front of the session's name.
func (d Defaults) Trusts(received *events.SQSMessage) bool {
	sender := received.Attributes["SenderId"]
	role, _, _ := strings.Cut(sender, ":")
	return sender != "" && (slices.Contains(d.Trusted, sender) || slices.Contains(d.Trusted, role))
}

// Origin tells where a message's identity came from.
type Origin uint8

// The origins.
const (
	// FromSender: once-id, or source and sequence.
	FromSender Origin = iota
	// FromDeduplicationID: the MessageDeduplicationId.
	FromDeduplicationID
	// FromMessageID: the queue's own id. It names one sending: if the sender tries again, nothing shows that it is the same message. Worth a warning.
	FromMessageID
)

// FromSQS reads a message off an ingress queue. The error is a [*record.InvalidError]; what could be read of the message comes with it.
func FromSQS(received events.SQSMessage, d Defaults) (record.Message, Origin, error) {
	r := reader{record: &received, trusted: d.Trusts(&received)}
	r.message.Accepted = millis(received.Attributes["SentTimestamp"])
	r.foreign()
	own := r.meta()
	r.names(d.Stream, own)
	r.numbers()
	origin := r.identity()
	for name := range r.message.Headers {
		if Reserved(name) {
			r.fail(&record.InvalidError{Field: name, Rule: "was malformed when it was first received"})
		}
	}
	if r.err == nil {
		r.fail(r.message.Validate())
	}
	return r.message, origin, r.err
}

// A reader collects a message and the first error.
type reader struct {
	record  *events.SQSMessage
	trusted bool
	message record.Message
	err     error
}

func (r *reader) fail(err error) {
	if r.err == nil && err != nil {
		r.err = err
	}
}

// malformed notes an attribute that can't be read and keeps it where it stays visible, and invalid.
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

// text gives an attribute of the contract, or the empty string.
func (r *reader) text(name string) string {
	if a, ok := r.record.MessageAttributes[name]; ok && a.StringValue != nil {
		return *a.StringValue
	}
	return ""
}

// foreign takes over the attributes that are not of the contract. One that looks like one of it is malformed: a misspelt group would break an order in silence.
func (r *reader) foreign() {
	for _, name := range slices.Sorted(maps.Keys(r.record.MessageAttributes)) {
		a := r.record.MessageAttributes[name]
		switch {
		case Reserved(name) && !known(name):
			r.malformed(name, "is not an attribute of this contract")
		case Reserved(name) && a.StringValue == nil:
			r.malformed(name, "must be of the type String or Number")
		case Reserved(name) || a.StringValue == nil:
		case strings.EqualFold(name, "content-type"):
			r.message.ContentType = *a.StringValue
		default:
			r.header(name, *a.StringValue)
		}
	}
}

// meta reads once-meta and the body, and tells whether there was one: then ToQueue made the message, or somebody who writes as it does.
func (r *reader) meta() bool {
	text := r.text(AttrMeta)
	if text == "" {
		r.message.Body = []byte(r.record.Body)
		return false
	}
	var x meta
	if err := json.Unmarshal([]byte(text), &x); err != nil {
		r.message.Body = []byte(r.record.Body)
		r.malformed(AttrMeta, "must be a JSON object as documented")
		return false
	}
	for name, value := range x.Headers {
		r.header(name, value)
	}
	if x.ContentType != "" {
		r.message.ContentType = x.ContentType
	}
	r.message.ID, r.message.Group, r.message.Source = x.ID, x.Group, x.Source
	body, err := decodeBody(r.record.Body, x.Encoding)
	if r.message.Body = body; err != nil {
		r.header(AttrMeta, text)
		r.fail(err)
	}
	if r.trusted {
		r.believe(x)
	}
	return true
}

// believe takes over what only a trusted sender may say.
func (r *reader) believe(x meta) {
	r.message.Principal, r.message.Route = x.Principal, x.Route
	if x.Accepted != nil {
		r.message.Accepted = *x.Accepted
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
	if m.Stream == "" {
		m.Stream = bound
	}
	if m.Group == "" && !own { // ToQueue's message groups are scoped by stream, and say nothing that the message does not
		m.Group = r.record.Attributes["MessageGroupId"]
	}
}

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

// parseNumber reads a decimal number without sign or leading zeros.
func parseNumber(text string) (uint64, bool) {
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil && strconv.FormatUint(n, 10) == text
}

// identity names the message where its sender did not.
func (r *reader) identity() Origin {
	m := &r.message
	switch {
	case m.ID != "" || m.Source != "":
		return FromSender
	case r.record.Attributes["MessageDeduplicationId"] != "":
		m.ID = r.record.Attributes["MessageDeduplicationId"]
		return FromDeduplicationID
	default:
		m.ID = r.record.MessageId
		return FromMessageID
	}
}
