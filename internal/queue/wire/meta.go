package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/effectively-once/once/clock"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

// The attributes of the contract.
const (
	AttrStream    = "once-stream"
	AttrID        = "once-id"
	AttrGroup     = "once-group"
	AttrSource    = "once-source"
	AttrEpoch     = "once-epoch"
	AttrSequence  = "once-sequence"
	AttrDependsOn = "once-depends-on"
	AttrParents   = "once-parents"
	AttrTime      = "once-time"
	AttrEnd       = "once-end"
	AttrMeta      = "once-meta"
	AttrReason    = "once-reason"
)

// known reports whether an attribute is listed in the contract.
func known(name string) bool {
	switch name {
	case AttrStream, AttrID, AttrGroup, AttrSource, AttrEpoch, AttrSequence, AttrDependsOn, AttrParents, AttrTime, AttrEnd, AttrMeta, AttrReason:
		return true
	}
	return false
}

const prefix = "once-"

// HeaderEvent is the header of messages that the system itself generates. It is not reserved,
// because a stream may send such messages to another one.
const HeaderEvent = "once-event"

// HeaderUnread is the header of a dead letter from a source whose message could not be read: the
// name of the source. Its other headers are attributes of the message. Package ingress reads it
// again when it is redriven.
const HeaderUnread = prefix + "unread"

// Reserved reports whether an attribute's name is reserved for the contract: all names that start
// with once-, in any case.
func Reserved(name string) bool {
	return name != HeaderEvent && len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// The encodings of a body.
const (
	encodingBase64 = "base64"
	encodingEmpty  = "empty" // SQS allows no empty body
)

// The forms of messages that belong to no stream.
const (
	formTrigger = "trigger"
	formEffect  = "effect"
)

// meta is the once-meta attribute.
type meta struct {
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Encoding    string            `json:"encoding,omitempty"`
	// ID, Group and Source replace attributes if a name contains a character that SQS allows in no
	// attribute.
	ID     string `json:"id,omitempty"`
	Group  string `json:"group,omitempty"`
	Source string `json:"source,omitempty"`
	// Parents, Time and End take the place of attributes in the messages of ToQueue: SQS allows
	// ten.
	Parents []uint64     `json:"parents,omitempty"`
	Time    clock.Hybrid `json:"time,omitzero"`
	End     bool         `json:"end,omitempty"`
	// Via and Void have no attributes: messages of other systems come by HTTP.
	Via  []string `json:"via,omitempty"`
	Void bool     `json:"void,omitempty"`

	// The following fields are accepted from trusted senders only.
	Form      string     `json:"form,omitempty"`
	Principal string     `json:"principal,omitempty"`
	Route     string     `json:"route,omitempty"`
	Accepted  *time.Time `json:"accepted,omitempty"`
	NotBefore *time.Time `json:"not_before,omitempty"`
	// Timer and TimerNumber are those of a message of a timer.
	Timer       string `json:"timer,omitempty"`
	TimerNumber uint64 `json:"timer_number,omitempty"`
	// RedeliveryOf is that of a message; Session and Number are those of a dead letter.
	RedeliveryOf string `json:"redelivery_of,omitempty"`
	// Stream and To are those of an effect, whose identity and group are ID and Group: a letter
	// can be named without its body.
	Stream  string `json:"stream,omitempty"`
	To      string `json:"to,omitempty"`
	Session string `json:"session,omitempty"`
	Number  uint64 `json:"number,omitempty"`
	// Count is how many refusals a dead letter stands for, if there are several, and First is when
	// the first one was.
	Count int        `json:"count,omitempty"`
	First *time.Time `json:"first,omitempty"`
	// Content is that of a message of a source.
	Content []byte `json:"content,omitempty"`
}

// encode returns the attribute: JSON that SQS accepts.
func (x *meta) encode() string {
	if !x.plain() {
		return encodeJSON(x)
	}
	b := append(make([]byte, 0, 160), '{')
	field := func(name, value string) {
		if value == "" {
			return
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), name...), `":"`...)
		b = append(append(b, value...), '"')
	}
	field("content_type", x.ContentType)
	field("encoding", x.Encoding)
	field("form", x.Form)
	field("principal", x.Principal)
	field("route", x.Route)
	if x.Accepted != nil {
		field("accepted", x.Accepted.Format(time.RFC3339Nano))
	}
	if x.NotBefore != nil {
		field("not_before", x.NotBefore.Format(time.RFC3339Nano))
	}
	return string(append(b, '}'))
}

// plain reports whether no text of x has to be escaped, and x has no rare field. Most messages are
// plain, and encoding/json costs several times as much.
func (x *meta) plain() bool {
	return len(x.Headers) == 0 && len(x.Parents) == 0 && x.Time == 0 && len(x.Via) == 0 && !x.Void && !x.End && x.ID == "" && x.Group == "" && x.Source == "" &&
		x.RedeliveryOf == "" && x.Stream == "" && x.To == "" && x.Session == "" && x.Number == 0 && x.Count == 0 && len(x.Content) == 0 && x.Timer == "" && x.TimerNumber == 0 &&
		record.IsPlain(x.ContentType) && record.IsPlain(x.Encoding) && record.IsPlain(x.Form) && record.IsPlain(x.Principal) && record.IsPlain(x.Route)
}

// encodeJSON returns JSON that SQS accepts: U+FFFE and U+FFFF are not allowed in XML, so they are
// escaped.
func encodeJSON(v any) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	// only our own structs of strings, numbers and times within the years of RFC 3339
	_ = encoder.Encode(v)
	out := bytes.TrimRight(b.Bytes(), "\n")
	out = bytes.ReplaceAll(out, []byte("\uFFFE"), []byte(`\ufffe`))
	return string(bytes.ReplaceAll(out, []byte("\uFFFF"), []byte(`\uffff`)))
}

// encodeBody returns a body in a form that SQS accepts, and its encoding.
func encodeBody(body []byte) (text, encoding string) {
	switch s := string(body); {
	case s == "":
		return "-", encodingEmpty
	case queue.ValidText(s):
		return s, ""
	default:
		return base64.StdEncoding.EncodeToString(body), encodingBase64
	}
}

func decodeBody(text, encoding string) ([]byte, error) {
	switch encoding {
	case "":
		return []byte(text), nil
	case encodingEmpty:
		return nil, nil
	case encodingBase64:
		body, err := base64.StdEncoding.DecodeString(text)
		if err == nil {
			return body, nil
		}
	}
	return []byte(text), &record.InvalidError{Field: "body", Rule: "must be encoded as " + AttrMeta + " says: base64, or not at all"}
}
