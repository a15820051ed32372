package client

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"strconv"
	"strings"
	"unicode/utf8"
)

// line returns the message as a line of a batch. The server must get the body byte for byte: as it
// is if it is JSON on one line, as a string if it is text, otherwise in base64.
func (m *Message) line() ([]byte, error) {
	l := lineWriter{b: make([]byte, 0, 160+len(m.Key)+len(m.Group)+len(m.Source)+len(m.ContentType)+base64.StdEncoding.EncodedLen(len(m.Body)))}
	l.text("key", m.Key)
	l.text("group", m.Group)
	l.text("source", m.Source)
	l.number("epoch", m.Epoch)
	l.number("sequence", m.Sequence)
	if len(m.DependsOn) > 0 {
		l.value("depends_on", m.DependsOn)
	}
	if len(m.Parents) > 0 {
		l.value("parents", m.Parents)
	}
	if m.Seen != 0 {
		l.value("time", m.Seen)
	}
	if m.End {
		l.value("end", true)
	}
	if !m.NotBefore.IsZero() {
		l.text("not_before", m.notBefore())
	}
	l.text("content_type", m.ContentType)
	if len(m.Headers) > 0 {
		headers := make(map[string]string, len(m.Headers))
		for name, value := range m.Headers {
			headers[name] = strings.Trim(value, " ") // as HTTP does
		}
		l.value("headers", headers)
	}
	asJSON := isJSON(m.ContentType)
	switch {
	case len(m.Body) == 0:
	case asJSON && isLine(m.Body):
		l.name("body")
		l.b = append(l.b, m.Body...)
	case m.ContentType != "" && !asJSON && utf8.Valid(m.Body):
		l.text("body", string(m.Body))
	default:
		l.name("body_base64")
		l.b = append(base64.StdEncoding.AppendEncode(append(l.b, '"'), m.Body), '"')
	}
	if l.err != nil {
		return nil, fmt.Errorf("describe message: %w", l.err)
	}
	if len(l.b) == 0 {
		l.b = append(l.b, '{')
	}
	return append(l.b, '}', '\n'), nil
}

// A lineWriter writes a JSON object without its last brace. The names need no escapes.
type lineWriter struct {
	b   []byte
	err error
}

// name begins a field.
func (l *lineWriter) name(name string) {
	if len(l.b) == 0 {
		l.b = append(l.b, '{')
	} else {
		l.b = append(l.b, ',')
	}
	l.b = append(append(append(l.b, '"'), name...), '"', ':')
}

// text adds a field unless its text is empty.
func (l *lineWriter) text(name, text string) {
	switch {
	case text == "":
	case isPlain(text):
		l.name(name)
		l.b = append(append(append(l.b, '"'), text...), '"')
	default:
		l.value(name, text)
	}
}

// number adds a field unless its number is 0.
func (l *lineWriter) number(name string, n uint64) {
	if n != 0 {
		l.name(name)
		l.b = strconv.AppendUint(l.b, n, 10)
	}
}

// value adds a field of any type.
func (l *lineWriter) value(name string, v any) {
	text, err := json.Marshal(v)
	l.name(name)
	l.b, l.err = append(l.b, text...), errors.Join(l.err, err)
}

// isPlain reports whether JSON needs no escape for a text.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
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
