package handler

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/effectively-once/once/internal/record"
)

const jsonType = "application/json"

// A Content is the content of a message, an effect, a log entry or a reply.
type Content struct {
	// ContentType is "application/json" if the document has a body and no type.
	ContentType string
	Headers     map[string]string
	Body        []byte
}

// contentMembers are the members of an object that has content.
func contentMembers() []string { return []string{"content_type", "headers", "body", "body_base64"} }

// content reads the content of an object, with a body of at most so many bytes.
func (o object) content(most int) (c Content, err error) {
	if c.ContentType, err = o.text("content_type"); err != nil {
		return c, err
	}
	if c.Headers, err = o.headers(); err != nil {
		return c, err
	}
	isJSON, ok := record.MediaType(c.ContentType)
	if !ok && c.ContentType != "" {
		return c, wrong(o.value("content_type").path, "must be a media type, such as application/json")
	}
	body := o.value("body")
	switch {
	case o.has("body") && o.has("body_base64"):
		return c, wrong(body.path, "and body_base64 exclude each other")
	case o.has("body_base64"):
		body = o.value("body_base64")
		c.Body, err = body.bytes()
	case !o.has("body"):
	case c.ContentType == "" || isJSON:
		c.ContentType, c.Body = jsonTypeOr(c.ContentType), compact(body.raw)
	default:
		var text string
		if text, err = body.text(); err != nil {
			return c, wrong(body.path, "must be a string, because content_type is %.64s", c.ContentType)
		}
		c.Body = []byte(text)
	}
	if err == nil && len(c.Body) > most {
		err = wrong(body.path, "of %d bytes is larger than %d", len(c.Body), most)
	}
	return c, err
}

func jsonTypeOr(contentType string) string {
	if contentType == "" {
		return jsonType
	}
	return contentType
}

// compact returns JSON without white space between its tokens.
func compact(raw []byte) []byte {
	var b bytes.Buffer
	if b.Grow(len(raw)); json.Compact(&b, raw) != nil { // impossible: it was decoded
		return raw
	}
	return b.Bytes()
}

// bytes reads the value as a string in base64.
func (v value) bytes() ([]byte, error) {
	text, err := v.text()
	if err != nil {
		return nil, err
	}
	data, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return nil, wrong(v.path, "must be base64 (RFC 4648, with padding)")
	}
	return data, nil
}

// headers reads the member "headers".
func (o object) headers() (map[string]string, error) {
	if !o.has("headers") {
		return nil, nil
	}
	v := o.value("headers")
	members, err := v.members()
	if err != nil {
		return nil, err
	}
	headers := make(map[string]string, len(members))
	seen := make(map[string]bool, len(members))
	for name, raw := range members {
		path := v.path + "." + name
		text, err := value{path, raw}.text()
		lower := strings.ToLower(name)
		switch {
		case !record.IsToken(name):
			return nil, wrong(v.path, "must have names that HTTP allows; %.64q is none", name)
		case err != nil:
			return nil, wrong(path, "must be a string")
		case strings.ContainsFunc(text, unicode.IsControl) || strings.Trim(text, " ") != text:
			return nil, wrong(path, "must have no control characters, and no spaces around it")
		case seen[lower]:
			return nil, wrong(v.path, "has %.64q twice", lower)
		}
		headers[name], seen[lower] = text, true
	}
	m := record.Message{Headers: headers}
	if invalid := m.WrongHeaders(); invalid != nil {
		return nil, wrong(v.path, "%s", invalid.Rule)
	}
	return headers, nil
}

// setBody returns the members for a body: body is JSON if the content type says so, otherwise a
// string. Bytes that are not UTF-8 are body_base64, and so is a body that is not the JSON that its
// content type promises: as a string, it would look like a JSON string.
func setBody(contentType string, data []byte) (body json.RawMessage, inBase64 []byte, err error) {
	if len(data) == 0 {
		return nil, nil, nil
	}
	if !utf8.Valid(data) {
		return nil, data, nil
	}
	if record.IsJSON(contentType) {
		var b bytes.Buffer
		if b.Grow(len(data)); json.Compact(&b, data) != nil {
			return nil, data, nil //nolint:nilerr // it is no JSON
		}
		return b.Bytes(), nil, nil
	}
	if body, err = marshal(string(data)); err != nil {
		return nil, nil, fmt.Errorf("encode body: %w", err)
	}
	return body, nil, nil
}

// marshal is json.Marshal without escapes of <, > and &, which would lengthen bodies.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
