package file

import (
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/effectively-once/once/internal/record"
)

// appendLine appends a delivery as one line of JSON. Fields that are empty are left out.
func appendLine(dst []byte, d *record.Delivery) []byte {
	e := &d.Effect
	dst = append(dst, `{"stream":`...)
	dst = appendString(dst, d.Stream)
	dst = appendText(dst, "group", d.Group)
	dst = appendNumber(dst, "number", d.Number)
	dst = appendText(dst, "id", e.ID)
	dst = appendText(dst, "source", e.Source)
	dst = appendNumber(dst, "epoch", e.Epoch)
	dst = appendNumber(dst, "sequence", e.Sequence)
	dst = appendText(dst, "content_type", e.ContentType)
	dst = appendHeaders(dst, e.Headers)
	dst = appendBody(dst, e)
	return append(dst, '}', '\n')
}

func appendText(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	return appendString(appendName(dst, name), value)
}

func appendNumber(dst []byte, name string, value uint64) []byte {
	if value == 0 {
		return dst
	}
	return strconv.AppendUint(appendName(dst, name), value, 10)
}

func appendHeaders(dst []byte, headers map[string]string) []byte {
	if len(headers) == 0 {
		return dst
	}
	dst = appendName(dst, "headers")
	before := byte('{')
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		dst = appendString(append(dst, before), name)
		dst = appendString(append(dst, ':'), headers[name])
		before = ','
	}
	return append(dst, '}')
}

// appendBody writes JSON as itself on one line, other text as a string, and anything else in base64.
func appendBody(dst []byte, e *record.Effect) []byte {
	if len(e.Body) == 0 {
		return dst
	}
	if !utf8.Valid(e.Body) {
		dst = append(appendName(dst, "body_base64"), '"')
		return append(base64.StdEncoding.AppendEncode(dst, e.Body), '"')
	}
	dst = appendName(dst, "body")
	if isJSON(e.ContentType) {
		if out, ok := appendCompact(dst, e.Body); ok {
			return out
		}
	}
	return appendString(dst, e.Body)
}

// isJSON reports whether a content type is application/json or ends in +json.
func isJSON(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.TrimSpace(media)
	const suffix = "+json"
	return strings.EqualFold(media, "application/json") ||
		len(media) > len(suffix) && strings.EqualFold(media[len(media)-len(suffix):], suffix)
}

func appendName(dst []byte, name string) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	return append(dst, '"', ':')
}

const hex = "0123456789abcdef"

// appendString appends a JSON string with the fewest escapes that JSON allows; bytes that are not UTF-8 become U+FFFD.
func appendString[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		b := s[i]
		if plain[b] {
			i++
			continue
		}
		if b >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			if r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		dst = append(dst, s[start:i]...)
		dst = appendEscape(dst, b)
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

func appendEscape(dst []byte, b byte) []byte {
	switch {
	case b == '"' || b == '\\':
		return append(dst, '\\', b)
	case b == '\n':
		return append(dst, '\\', 'n')
	case b == '\r':
		return append(dst, '\\', 'r')
	case b == '\t':
		return append(dst, '\\', 't')
	case b >= utf8.RuneSelf:
		return append(dst, "\ufffd"...)
	}
	return append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&0xf])
}
