package file

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/effectively-once/once/internal/record"
)

// An entry is a delivery as one line of JSON. Empty fields are left out.
type entry struct {
	Stream      string            `json:"stream"`
	Group       string            `json:"group,omitempty"`
	Number      uint64            `json:"number,omitempty"`
	ID          string            `json:"id,omitempty"`
	Source      string            `json:"source,omitempty"`
	Epoch       uint64            `json:"epoch,omitempty"`
	Sequence    uint64            `json:"sequence,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Body        any               `json:"body,omitempty"`        // JSON as itself, other text as a string
	BodyBase64  []byte            `json:"body_base64,omitempty"` // a body that is not UTF-8
}

// appendLine appends d as one line of JSON.
func appendLine(dst []byte, d *record.Delivery) []byte {
	if out, ok := appendPlain(dst, d); ok {
		return out
	}
	return appendEncoded(dst, d)
}

// appendEncoded is appendLine by encoding/json, for every delivery.
func appendEncoded(dst []byte, d *record.Delivery) []byte {
	e := &d.Effect
	l := entry{
		Stream: d.Stream, Group: d.Group, Number: d.Number,
		ID: e.ID, Source: e.Source, Epoch: e.Epoch, Sequence: e.Sequence, ContentType: e.ContentType, Headers: e.Headers,
	}
	switch {
	case len(e.Body) == 0:
	case !utf8.Valid(e.Body):
		l.BodyBase64 = e.Body
	case record.IsJSON(e.ContentType):
		l.Body = json.RawMessage(e.Body)
	default:
		l.Body = string(e.Body)
	}
	buf := bytes.NewBuffer(dst)
	encoder := json.NewEncoder(buf)
	encoder.SetEscapeHTML(false)
	if encoder.Encode(l) != nil { // nothing was written: the body is no JSON, although its type says so
		l.Body = string(e.Body)
		_ = encoder.Encode(l) // strings and numbers always have a JSON form
	}
	return buf.Bytes()
}
