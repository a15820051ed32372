package client

import (
	"encoding/json"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/effectively-once/once/clock"
)

// record is a message as a line of a batch.
type record struct {
	Key         string            `json:"key,omitempty"`
	Group       string            `json:"group,omitempty"`
	Source      string            `json:"source,omitempty"`
	Epoch       uint64            `json:"epoch,omitempty"`
	Sequence    uint64            `json:"sequence,omitempty"`
	DependsOn   map[string]uint64 `json:"depends_on,omitempty"`
	Parents     []uint64          `json:"parents,omitempty"`
	Time        clock.Hybrid      `json:"time,omitzero"`
	End         bool              `json:"end,omitempty"`
	ContentType string            `json:"content_type,omitempty"`
	Headers     map[string]string `json:"headers,omitempty"`
	Body        *string           `json:"body,omitempty"` // of text
	BodyBase64  []byte            `json:"body_base64,omitempty"`
}

// line returns the message as a line of a batch. The server must get the body byte for byte: as it
// is if it is JSON on one line, as a string if it is text, otherwise in base64.
func (m *Message) line() ([]byte, error) {
	r := record{
		Key: m.Key, Group: m.Group, Source: m.Source, Epoch: m.Epoch, Sequence: m.Sequence, DependsOn: m.DependsOn, Parents: m.Parents, Time: m.Seen, End: m.End, ContentType: m.ContentType,
	}
	if len(m.Headers) > 0 {
		r.Headers = make(map[string]string, len(m.Headers))
		for name, value := range m.Headers {
			r.Headers[name] = strings.Trim(value, " ") // as HTTP does
		}
	}
	asJSON := isJSON(m.ContentType)
	embedded := asJSON && isLine(m.Body)
	switch {
	case embedded, len(m.Body) == 0:
	case m.ContentType != "" && !asJSON && utf8.Valid(m.Body):
		text := string(m.Body)
		r.Body = &text
	default:
		r.BodyBase64 = m.Body
	}
	line, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("describe message: %w", err)
	}
	if embedded {
		line = append(line[:len(line)-1], `,"body":`...)
		line = append(append(line, m.Body...), '}')
	}
	return append(line, '\n'), nil
}

// isLine reports whether a body is JSON that stays the same if it is a part of a line.
func isLine(body []byte) bool {
	if len(body) == 0 || !utf8.Valid(body) || !json.Valid(body) {
		return false
	}
	if body[0] <= ' ' || body[len(body)-1] <= ' ' {
		return false // the spaces around a value are not part of it
	}
	for _, c := range body {
		if c == '\n' || c == '\r' {
			return false
		}
	}
	return true
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}

// group returns the group that the message belongs to.
func (m *Message) group() string {
	switch {
	case m.Group != "":
		return m.Group
	case m.Source != "":
		return m.Source
	}
	return m.Key
}
