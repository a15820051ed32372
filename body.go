package once

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
)

// A Body is the content of a message, an effect or a reply: bytes, their media type, and headers.
// The zero Body is empty. A Body is a value and can be used many times.
type Body struct {
	contentType string
	data        []byte
	headers     map[string]string
	dependsOn   map[string]uint64
	err         error
}

// JSON returns v as JSON. If v can't be encoded, the attempt that uses the body fails.
func JSON(v any) Body {
	data, err := json.Marshal(v)
	if err != nil {
		err = fmt.Errorf("encode body: %w", err)
	}
	return Body{contentType: "application/json", data: data, err: err}
}

// Text returns s as plain text in UTF-8.
func Text(s string) Body { return Body{contentType: "text/plain; charset=utf-8", data: []byte(s)} }

// Bytes returns a copy of data with a media type, which may be empty.
func Bytes(contentType string, data []byte) Body {
	return Body{contentType: contentType, data: bytes.Clone(data)}
}

// WithHeader returns the body with one more header, of the message or of the HTTP reply.
func (b Body) WithHeader(name, value string) Body {
	b.headers = maps.Clone(b.headers)
	if b.headers == nil {
		b.headers = map[string]string{}
	}
	b.headers[name] = value
	return b
}

// WithDependsOn returns the body of an effect that waits at its destination: until the group there
// has processed these numbers, by source. It is [Message.DependsOn] for a stream of this or of
// another system; other destinations, entries of logs and replies ignore it. A source is that of
// the same sender at the destination, such as "chat/lobby" for the effects of that group.
func (b Body) WithDependsOn(numbers map[string]uint64) Body {
	b.dependsOn = maps.Clone(numbers)
	return b
}

// check returns an error if the body can't be used, or has more than most bytes.
func (b Body) check(most int) error {
	switch {
	case b.err != nil:
		return b.err
	case len(b.data) > most:
		return fmt.Errorf("body of %d bytes is larger than %d", len(b.data), most)
	}
	if _, empty := b.headers[""]; empty {
		return errors.New("header without a name")
	}
	return nil
}
