package log

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/effectively-once/once/internal/record"
)

// AppendJSON appends the entry as a JSON object for a reader, who sees the principal if it is its
// own. The object has no line breaks. A body is JSON if its content type says so and it is valid, a
// string if it is other UTF-8 text, and otherwise body_base64. The error wraps [record.ErrCorrupt].
func (x *Encoded) AppendJSON(b []byte, incarnation uint64, reader string) ([]byte, error) {
	b = append(b, `{"number":`...)
	b = strconv.AppendUint(b, x.Number, 10)
	b = append(b, `,"offset":"`...)
	b = x.offset(incarnation).Append(b)
	b = append(b, '"')
	c := cursor{b: x.fields}
	contentType := ""
	for range c.head(5) {
		name := c.text()
		b = append(appendString(append(b, ','), name), ':')
		switch string(name) {
		case "content_type":
			value := c.text()
			contentType = string(value)
			b = appendString(b, value)
		case "body":
			b = appendBody(b, c.bytes(), contentType)
		default:
			b = c.appendValue(b)
		}
	}
	if x.Principal != "" && x.Principal == reader {
		b = appendString(append(b, `,"principal":`...), []byte(x.Principal))
	}
	if c.bad || len(c.b) > 0 {
		return nil, fmt.Errorf("%w: entry %d of a log", record.ErrCorrupt, x.Number)
	}
	return append(b, '}'), nil
}

// appendBody appends the value of the body; its name is already there.
func appendBody(b, body []byte, contentType string) []byte {
	if !utf8.Valid(body) {
		b = append(bytes.TrimSuffix(b, []byte(`":`)), `_base64":"`...)
		return append(base64.StdEncoding.AppendEncode(b, body), '"')
	}
	if record.IsJSON(contentType) {
		compact := bytes.NewBuffer(b)
		if json.Compact(compact, body) == nil {
			return compact.Bytes()
		}
	}
	return appendString(b, body)
}

// appendString appends a text as a JSON string. Invalid UTF-8 is replaced.
func appendString(b, text []byte) []byte {
	if !utf8.Valid(text) {
		text = bytes.ToValidUTF8(text, []byte("\ufffd"))
	}
	b = append(b, '"')
	from := 0
	for i, c := range text {
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		b = append(b, text[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			b = append(b, '\\', c)
		case '\n':
			b = append(b, `\n`...)
		case '\t':
			b = append(b, `\t`...)
		case '\r':
			b = append(b, `\r`...)
		default:
			const hex = "0123456789abcdef"
			b = append(b, `\u00`...)
			b = append(b, hex[c>>4], hex[c&15])
		}
	}
	return append(append(b, text[from:]...), '"')
}

// A cursor reads the CBOR of an entry. After a mistake it is bad, and returns nothing.
type cursor struct {
	b   []byte
	bad bool
}

// head reads the head of an item of a major type.
func (c *cursor) head(major byte) uint64 {
	if len(c.b) == 0 || c.b[0]>>5 != major {
		return c.fail()
	}
	short := c.b[0] & 31
	c.b = c.b[1:]
	if short < 24 {
		return uint64(short)
	}
	size := 1 << (short - 24)
	if short > 27 || len(c.b) < size {
		return c.fail()
	}
	n := uint64(0)
	for _, x := range c.b[:size] {
		n = n<<8 | uint64(x)
	}
	c.b = c.b[size:]
	return n
}

func (c *cursor) fail() uint64 {
	c.b, c.bad = nil, true
	return 0
}

func (c *cursor) take(major byte) []byte {
	n := c.head(major)
	if n > uint64(len(c.b)) {
		c.fail()
		return nil
	}
	out := c.b[:n]
	c.b = c.b[n:]
	return out
}

func (c *cursor) text() []byte  { return c.take(3) }
func (c *cursor) bytes() []byte { return c.take(2) }

// appendValue appends a number, a text, a boolean, or a list or map of those, as JSON.
func (c *cursor) appendValue(b []byte) []byte {
	if len(c.b) == 0 {
		c.fail()
		return b
	}
	switch major := c.b[0] >> 5; major {
	case 0:
		return strconv.AppendUint(b, c.head(0), 10)
	case 3:
		return appendString(b, c.text())
	case 4:
		b = append(b, '[')
		for i := range c.count(4) {
			if i > 0 {
				b = append(b, ',')
			}
			b = c.appendValue(b)
		}
		return append(b, ']')
	case 5:
		b = append(b, '{')
		for i := range c.count(5) {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendString(b, c.text())
			b = c.appendValue(append(b, ':'))
		}
		return append(b, '}')
	}
	value := c.b[0]
	c.b = c.b[1:]
	switch value {
	case 0xf4:
		return append(b, "false"...)
	case 0xf5:
		return append(b, "true"...)
	}
	c.fail()
	return b
}

// count reads the head of a list or map. Each part takes at least a byte.
func (c *cursor) count(major byte) int {
	n := c.head(major)
	if n > uint64(len(c.b)) || n > math.MaxInt32 {
		c.fail()
		return 0
	}
	return int(n)
}
