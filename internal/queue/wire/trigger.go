package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

// trigger is the body of a message on the publish queue: one of its fields is set.
type trigger struct {
	Publish *publishJSON `json:"publish,omitempty"`
	Deliver *deliverJSON `json:"deliver,omitempty"`
}

type publishJSON struct {
	Stream string `json:"stream"`
	Group  string `json:"group"`
}

type deliverJSON struct {
	To       string       `json:"to"`
	Delivery deliveryJSON `json:"delivery"`
}

type deliveryJSON struct {
	Identity    string     `json:"identity"`
	Stream      string     `json:"stream"`
	Group       string     `json:"group,omitempty"`
	Number      uint64     `json:"number,omitempty"`
	Incarnation uint64     `json:"incarnation,omitempty"`
	Hash        string     `json:"hash,omitempty"`
	Sequence    uint64     `json:"sequence,omitempty"`
	Target      string     `json:"target,omitempty"`
	Retention   duration   `json:"retention,omitempty"`
	Effect      effectJSON `json:"effect"`
}

// A duration is written in Go's format: 36h0m0s.
type duration time.Duration

// MarshalText implements [encoding.TextMarshaler].
func (d duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = duration(parsed)
	return err
}

type effectJSON struct {
	To          []string          `json:"to,omitempty"`
	Group       string            `json:"group,omitempty"`
	ID          string            `json:"id,omitempty"`
	Source      string            `json:"source,omitempty"`
	Epoch       uint64            `json:"epoch,omitempty"`
	Sequence    uint64            `json:"sequence,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Body        []byte            `json:"body,omitempty"` // base64
	Chain       map[string]uint64 `json:"chain,omitempty"`
	DependsOn   map[string]uint64 `json:"depends_on,omitempty"`
	Via         []string          `json:"via,omitempty"`
	BlobKey     string            `json:"blob_key,omitempty"`
	BlobStaged  string            `json:"blob_staged,omitempty"`
	NotBefore   time.Time         `json:"not_before,omitzero"`
	Timer       string            `json:"timer,omitempty"`
}

func toDeliveryJSON(d record.Delivery) deliveryJSON {
	e := d.Effect
	out := deliveryJSON{
		Identity: d.Identity, Stream: d.Stream, Group: d.Group, Number: d.Number, Incarnation: d.Incarnation, Hash: d.Hash, Sequence: d.Sequence, Target: d.Target,
		Retention: duration(d.Retention),
		Effect: effectJSON{
			To: e.To, Group: e.Group, ID: e.ID, Source: e.Source, Epoch: e.Epoch, Sequence: e.Sequence,
			ContentType: e.ContentType, Headers: e.Headers, Body: e.Body, Chain: e.Chain, DependsOn: e.DependsOn, Via: e.Via,
			NotBefore: e.NotBefore, Timer: e.Timer,
		},
	}
	if e.Blob != nil {
		out.Effect.BlobKey, out.Effect.BlobStaged = e.Blob.Key, e.Blob.Staged
	}
	return out
}

func (j deliveryJSON) delivery() record.Delivery {
	e := j.Effect
	d := record.Delivery{
		Identity: j.Identity, Stream: j.Stream, Group: j.Group, Number: j.Number, Incarnation: j.Incarnation, Hash: j.Hash, Sequence: j.Sequence, Target: j.Target,
		Retention: time.Duration(j.Retention),
		Effect: record.Effect{
			To: e.To, Group: e.Group, ID: e.ID, Source: e.Source, Epoch: e.Epoch, Sequence: e.Sequence,
			ContentType: e.ContentType, Headers: e.Headers, Body: e.Body, Chain: e.Chain, DependsOn: e.DependsOn, Via: e.Via,
			NotBefore: e.NotBefore, Timer: e.Timer,
		},
	}
	if e.BlobKey != "" {
		d.Effect.Blob = &record.Blob{Key: e.BlobKey, Staged: e.BlobStaged}
	}
	return d
}

// A Trigger is the decoded message of a publish queue: publish a group, or, if Delivery is set,
// send one effect to a destination.
type Trigger struct {
	Group    record.GroupKey
	Delivery *record.Delivery
	To       string
}

// FromTrigger decodes a message of the publish queue. The error is a [*record.InvalidError], or
// that of the delivery's body. Every sender may trigger a group; the caller must check that a
// message with an effect has a trusted sender, see [Defaults.Trusts].
func FromTrigger(received *queue.Delivery) (Trigger, error) {
	if received.Unread != nil {
		return Trigger{}, received.Unread
	}
	var x trigger
	if err := json.Unmarshal([]byte(received.Body), &x); err != nil {
		return Trigger{}, &record.InvalidError{Field: "body", Rule: "must be a trigger in JSON"}
	}
	switch {
	case x.Publish != nil && x.Deliver == nil:
		key := record.GroupKey{Stream: x.Publish.Stream, Group: x.Publish.Group}
		if err := checkGroup(key); err != nil {
			return Trigger{}, err // callers log the names of a trigger
		}
		return Trigger{Group: key}, nil
	case x.Deliver != nil && x.Publish == nil && x.Deliver.To != "" && x.Deliver.Delivery.Identity != "":
		d := x.Deliver.Delivery.delivery()
		return Trigger{Group: record.GroupKey{Stream: d.Stream, Group: d.Group}, Delivery: &d, To: x.Deliver.To}, nil
	}
	return Trigger{}, &record.InvalidError{Field: "body", Rule: "must be a trigger with either publish or deliver"}
}

// checkGroup returns an error if no store can have a group. A store that returns an error for it
// would fail the rest of the batch.
func checkGroup(key record.GroupKey) error {
	longest := record.MaxName
	if key.OfSessions() {
		longest = record.MaxReservedGroup
	} else if err := record.ValidStream(key.Stream); err != nil {
		return err
	}
	if len(key.Group) > longest {
		return &record.InvalidError{Field: "group", Rule: fmt.Sprintf("must be at most %d bytes", longest)}
	}
	return nil
}

// ErrTrigger says that a dead letter is a trigger to publish a group. It was dead-lettered after
// too many deliveries, and is redriven unchanged.
var ErrTrigger = errors.New("dead letter is a trigger")

// FromDeadLetter decodes a dead letter, whether ToDeadLetter made it or a queue moved it after too
// many deliveries. The reason is set even if there is an error: a [*record.InvalidError] with the
// decodable parts, that of the delivery's body, or [ErrTrigger]. Of an effect whose
// body could not be read, only the names are set.
func FromDeadLetter(received *queue.Delivery, d Defaults) (record.Refused, error) {
	r := reader{received: received}
	reason, detail := parseReason(r.text(AttrReason))
	out := record.Refused{Reason: reason, Detail: detail}
	var x meta
	if d.Trusts(received) && json.Unmarshal([]byte(r.text(AttrMeta)), &x) == nil {
		switch x.Form {
		case formTrigger:
			return out, ErrTrigger
		case formEffect:
			t, err := FromTrigger(received)
			out.Delivery, out.To = t.Delivery, t.To
			if received.Unread != nil && x.ID != "" {
				out.Delivery, out.To = &record.Delivery{Identity: x.ID, Stream: x.Stream, Group: x.Group}, x.To
			}
			if err == nil && t.Delivery == nil {
				err = ErrTrigger
			}
			return out, err
		}
		out.Session, out.Number = x.Session, x.Number
	}
	var err error
	out.Message, _, err = FromQueue(received, d)
	return out, err
}
