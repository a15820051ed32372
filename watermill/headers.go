package watermill

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/effectively-once/once/client"
)

// Headers of a published message. Metadata is one header, because its keys are case-sensitive and
// may have any character.
const (
	headerUUID     = "X-Watermill-Uuid"
	headerMetadata = "X-Watermill-Metadata"
)

var errText = errors.New("UUID and metadata must be valid UTF-8")

func headersOf(m *message.Message) (map[string]string, error) {
	for name, value := range m.Metadata { // JSON would replace other bytes
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return nil, errText
		}
	}
	if !utf8.ValidString(m.UUID) {
		return nil, errText
	}
	headers := map[string]string{}
	for name, value := range map[string]any{headerUUID: m.UUID, headerMetadata: m.Metadata} {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", name, err)
		}
		headers[name] = ascii(string(text))
	}
	return headers, nil
}

// ascii escapes all characters of a JSON text that HTTP headers can't have.
func ascii(text string) string {
	var out strings.Builder
	for _, r := range text {
		switch {
		case r < 0x7f:
			out.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		}
	}
	return out.String()
}

// messageOf returns the message of an entry. If it was not sent by a [Publisher], its UUID is its
// key, also if it was a dead letter and is redriven, and its metadata are its headers.
func messageOf(e *client.Entry) *message.Message {
	m := message.NewMessage(cmp.Or(e.RedeliveryOf, e.ID), e.Body)
	var uuid string
	var metadata message.Metadata
	if json.Unmarshal([]byte(e.Headers[headerUUID]), &uuid) == nil && json.Unmarshal([]byte(e.Headers[headerMetadata]), &metadata) == nil {
		m.UUID = uuid
		maps.Copy(m.Metadata, metadata)
		return m
	}
	maps.Copy(m.Metadata, e.Headers)
	return m
}

// maxKey is how long a key may be.
const maxKey = 256

// keyOf returns the key of a UUID: itself, if it can be a key.
func keyOf(uuid string) string {
	if len(uuid) <= maxKey && !strings.ContainsFunc(uuid, func(r rune) bool { return r < 0x20 || r > 0x7e }) {
		return uuid
	}
	sum := sha256.Sum256([]byte(uuid))
	return "sha256-" + hex.EncodeToString(sum[:])
}

// keyIn returns the key of a UUID in a stream with several topics, which have keys of their own.
// A message without a UUID has no key: the client generates one.
func keyIn(topic, uuid string) string {
	if uuid == "" {
		return ""
	}
	return keyOf(topic + "/" + uuid)
}
