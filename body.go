package once

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
)

// A Body is what a message, an effect or a reply carries: bytes, their media type, and headers. The zero Body is empty. A Body is a value: it can be used
// many times.
type Body struct {
	contentType string
	data        []byte
	headers     map[string]string
	err         error
}

// JSON is v as JSON. Where v can't be encoded, the attempt that the body is added to fails.
func JSON(v any) Body {
	data, err := json.Marshal(v)
	if err != nil {
		err = fmt.Errorf("encode body: %w", err)
	}
	return Body{contentType: "application/json", data: data, err: err}
}

// Text is s as plain text in UTF-8.
func Text(s string) Body { return Body{contentType: "text/plain; charset=utf-8", data: []byte(s)} }

// Bytes is a copy of data, of a media type that may be empty.
func Bytes(contentType string, data []byte) Body {
	return Body{contentType: contentType, data: bytes.Clone(data)}
}

// WithHeader is the body with one more header: of the message that it is sent as, or of the HTTP reply.
func (b Body) WithHeader(name, value string) Body {
	b.headers = maps.Clone(b.headers)
	if b.headers == nil {
		b.headers = map[string]string{}
	}
	b.headers[name] = value
	return b
}

// check says why the body can't be used.
func (b Body) check() error {
	switch {
	case b.err != nil:
		return b.err
	case len(b.data) > MaxBody:
		return fmt.Errorf("body of %d bytes is larger than %d", len(b.data), MaxBody)
	}
	if _, empty := b.headers[""]; empty {
		return errors.New("header without a name")
	}
	return nil
}
