package file

import (
	"encoding/binary"
	"strconv"
	"unicode/utf8"

	"github.com/effectively-once/once/internal/record"
)

// appendPlain appends d as appendLine does, if encoding/json would change nothing of its texts and
// of its body: they need no escapes, and the body is JSON without spaces. Otherwise ok is false. A
// sixth of the time of a batch would be spent in encoding/json.
func appendPlain(dst []byte, d *record.Delivery) (out []byte, ok bool) {
	e := &d.Effect
	if d.Stream == "" || len(e.Headers) > 0 || len(e.Body) == 0 || !isJSON(e.ContentType) || !utf8.Valid(e.Body) || !compact(e.Body) {
		return dst, false
	}
	out = append(dst, '{')
	for _, f := range [...]struct{ name, value string }{{"stream", d.Stream}, {"group", d.Group}} {
		if out, ok = appendText(out, f.name, f.value); !ok {
			return dst, false
		}
	}
	out = appendNumber(out, "number", d.Number)
	for _, f := range [...]struct{ name, value string }{{"id", e.ID}, {"source", e.Source}} {
		if out, ok = appendText(out, f.name, f.value); !ok {
			return dst, false
		}
	}
	out = appendNumber(appendNumber(out, "epoch", e.Epoch), "sequence", e.Sequence)
	if out, ok = appendText(out, "content_type", e.ContentType); !ok {
		return dst, false
	}
	return append(append(append(out, `"body":`...), e.Body...), '}', '\n'), true
}

// appendText appends a field and a comma, unless the value is empty.
func appendText(out []byte, name, value string) ([]byte, bool) {
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return out, false
		}
	}
	if value == "" {
		return out, true
	}
	out = append(append(append(out, '"'), name...), `":"`...)
	return append(append(out, value...), '"', ','), true
}

// appendNumber appends a field and a comma, unless the value is 0.
func appendNumber(out []byte, name string, value uint64) []byte {
	if value == 0 {
		return out
	}
	out = append(append(append(out, '"'), name...), `":`...)
	return append(strconv.AppendUint(out, value, 10), ',')
}

// maxDepth is how deep a value may be for compact.
const maxDepth = 100

// compact reports whether text, which is UTF-8, is one JSON value without spaces. It may be false
// for JSON with unusual escapes, and for JSON that is deep.
func compact(text []byte) bool { return skipValue(text, 0, 0) == len(text) }

// The functions below return the index after the skipped text, or -1 if the text is something else.

func skipValue(text []byte, at, depth int) int {
	if at < 0 || at >= len(text) || depth > maxDepth {
		return -1
	}
	switch text[at] {
	case '"':
		return skipText(text, at)
	case '{':
		return skipList(text, at, depth, '}', true)
	case '[':
		return skipList(text, at, depth, ']', false)
	case 't':
		return skipWord(text, at, "true")
	case 'f':
		return skipWord(text, at, "false")
	case 'n':
		return skipWord(text, at, "null")
	}
	return skipNumber(text, at)
}

// skipList skips an object or an array.
func skipList(text []byte, at, depth int, end byte, named bool) int {
	if at++; at < len(text) && text[at] == end {
		return at + 1
	}
	for {
		if named {
			if at = skipText(text, at); at < 0 || at >= len(text) || text[at] != ':' {
				return -1
			}
			at++
		}
		if at = skipValue(text, at, depth+1); at < 0 || at >= len(text) {
			return -1
		}
		switch at++; text[at-1] {
		case ',':
		case end:
			return at
		default:
			return -1
		}
	}
}

// skipText skips a string.
func skipText(text []byte, at int) int {
	if at >= len(text) || text[at] != '"' {
		return -1
	}
	for at++; at < len(text); {
		if at+8 <= len(text) && ordinary(binary.LittleEndian.Uint64(text[at:])) {
			at += 8
			continue
		}
		switch c := text[at]; {
		case c == '"':
			return at + 1
		case c < ' ':
			return -1
		case c == '\\':
			if at+1 == len(text) {
				return -1
			}
			switch text[at+1] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			default:
				return -1
			}
			at++
		}
		at++
	}
	return -1
}

// ordinary reports whether none of eight bytes is a quote, a backslash or a control character.
func ordinary(v uint64) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	quote, slash := v^ones*'"', v^ones*'\\'
	return ((quote-ones)&^quote|(slash-ones)&^slash|(v-ones*' ')&^v)&high == 0
}

func skipWord(text []byte, at int, word string) int {
	if end := at + len(word); end <= len(text) && string(text[at:end]) == word {
		return end
	}
	return -1
}

func skipNumber(text []byte, at int) int {
	if text[at] == '-' {
		at++
	}
	if at < len(text) && text[at] == '0' {
		at++
	} else if at = skipDigits(text, at); at < 0 {
		return -1
	}
	if at < len(text) && text[at] == '.' {
		if at = skipDigits(text, at+1); at < 0 {
			return -1
		}
	}
	if at < len(text) && text[at]|0x20 == 'e' {
		if at++; at < len(text) && (text[at] == '+' || text[at] == '-') {
			at++
		}
		return skipDigits(text, at)
	}
	return at
}

// skipDigits skips one digit or more.
func skipDigits(text []byte, at int) int {
	start := at
	for at < len(text) && text[at] >= '0' && text[at] <= '9' {
		at++
	}
	if at == start {
		return -1
	}
	return at
}
