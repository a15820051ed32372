package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

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
	AttrMeta      = "once-meta"
	AttrReason    = "once-reason"
)

// known reports whether an attribute is one of the contract's.
func known(name string) bool {
	switch name {
	case AttrStream, AttrID, AttrGroup, AttrSource, AttrEpoch, AttrSequence, AttrDependsOn, AttrMeta, AttrReason:
		return true
	}
	return false
}

const prefix = "once-"

// headerEvent is the header of messages that the system itself makes up: a stream may send them to another one.
const headerEvent = "once-event"

// Reserved reports whether an attribute's name is the contract's to give: all that start with once-, in any case.
func Reserved(name string) bool {
	return name != headerEvent && len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// The encodings of a body.
const (
	encodingBase64 = "base64"
	encodingEmpty  = "empty" // SQS takes no empty body
)

// The forms of messages that are none of a stream.
const (
	formTrigger = "trigger"
	formEffect  = "effect"
)

// meta is the once-meta attribute.
type meta struct {
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Encoding    string            `json:"encoding,omitempty"`
	// ID, Group and Source replace attributes where a name has a character that SQS takes in no attribute.
	ID     string `json:"id,omitempty"`
	Group  string `json:"group,omitempty"`
	Source string `json:"source,omitempty"`

	// What follows is believed of trusted senders only.
	Form      string     `json:"form,omitempty"`
	Principal string     `json:"principal,omitempty"`
	Route     string     `json:"route,omitempty"`
	Accepted  *time.Time `json:"accepted,omitempty"`
}

// encodeJSON writes JSON that SQS takes: U+FFFE and U+FFFF are no characters of XML, and JSON has an escape for them.
func encodeJSON(v any) string {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(v) // only our own structs of strings, numbers and times within the years of RFC 3339
	out := bytes.TrimRight(b.Bytes(), "\n")
	out = bytes.ReplaceAll(out, []byte("\uFFFE"), []byte(`\ufffe`))
	return string(bytes.ReplaceAll(out, []byte("\uFFFF"), []byte(`\uffff`)))
}

// encodeBody gives a body as SQS takes it, and its encoding.
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
