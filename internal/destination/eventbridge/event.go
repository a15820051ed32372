package eventdest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/effectively-once/once/internal/record"
)

// detail is the detail of an event: the fields of a file destination's line, plus identity and
// incarnation.
type detail struct {
	Identity    string            `json:"identity"`
	Stream      string            `json:"stream"`
	Group       string            `json:"group,omitempty"`
	Number      uint64            `json:"number,omitempty"`
	Incarnation uint64            `json:"incarnation,omitempty"`
	ID          string            `json:"id,omitempty"`
	Source      string            `json:"source,omitempty"`
	Epoch       uint64            `json:"epoch,omitempty"`
	Sequence    uint64            `json:"sequence,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Body        json.RawMessage   `json:"body,omitempty"`
	BodyBase64  []byte            `json:"body_base64,omitempty"`
}

// describe returns the detail of a delivery.
func describe(d *record.Delivery) (string, error) {
	e := &d.Effect
	x := detail{
		Identity: d.Identity, Stream: d.Stream, Group: d.Group, Number: d.Number, Incarnation: d.Incarnation,
		ID: e.ID, Source: e.Source, Epoch: e.Epoch, Sequence: e.Sequence, ContentType: e.ContentType, Headers: e.Headers,
	}
	switch {
	case len(e.Body) == 0:
	case (e.ContentType == "" || record.IsJSON(e.ContentType)) && utf8.Valid(e.Body) && json.Valid(e.Body):
		x.Body = e.Body
	case utf8.Valid(e.Body):
		text, err := encode(string(e.Body))
		if err != nil {
			return "", err
		}
		x.Body = text
	default:
		x.BodyBase64 = e.Body
	}
	b, err := encode(x)
	return string(b), err
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("write detail: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// maxDetailType is how many characters EventBridge accepts.
const maxDetailType = 128

// detailType returns the effect's header detail-type, or the stream.
func detailType(d *record.Delivery) string {
	for name, value := range d.Effect.Headers {
		if strings.EqualFold(name, "detail-type") && value != "" && utf8.RuneCountInString(value) <= maxDetailType {
			return value
		}
	}
	return d.Stream
}
