package record

import (
	"encoding/binary"
	"mime"
	"strings"
)

const jsonType = "application/json"

// IsJSON reports whether a content type is application/json or ends in +json.
func IsJSON(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == jsonType || strings.HasSuffix(media, "+json")
}

// MediaType reports whether a content type is a media type, and whether its bodies are JSON.
func MediaType(contentType string) (isJSON, ok bool) {
	if contentType == jsonType {
		return true, true
	}
	media, _, err := mime.ParseMediaType(contentType)
	return media == jsonType || strings.HasSuffix(media, "+json"), err == nil
}

// IsToken reports whether HTTP allows a header of that name.
func IsToken(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		return !letter && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// IsPlain reports whether a text is visible ASCII that needs no escape in JSON.
func IsPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// IsCompactJSON reports whether text, which is UTF-8, is one JSON value without spaces between its
// tokens. It may be false for JSON that is deep or has escapes of surrogates.
func IsCompactJSON(text []byte) bool { return skipper{text: text}.value(0, 0) == len(text) }

// JSONEnd returns the index after the JSON value that begins at text[at], or -1 if there is none,
// and for a value that is deep, has escapes of surrogates, or more than one line. text is UTF-8.
func JSONEnd(text []byte, at int) int { return skipper{text, true}.value(at, 0) }

// maxDepth is how deep a value may be that a skipper reads; encoding/json has a limit of its own.
const maxDepth = 100

// A skipper finds the end of JSON values, several times faster than encoding/json. Its methods
// return the index after what they skip, or -1 if the text there is something else.
type skipper struct {
	text   []byte
	spaces bool // between tokens
}

func (s skipper) value(at, depth int) int {
	if at < 0 || at >= len(s.text) || depth > maxDepth {
		return -1
	}
	switch s.text[at] {
	case '"':
		return s.quoted(at)
	case '{':
		return s.list(at, depth, '}', true)
	case '[':
		return s.list(at, depth, ']', false)
	case 't':
		return s.word(at, "true")
	case 'f':
		return s.word(at, "false")
	case 'n':
		return s.word(at, "null")
	}
	return s.number(at)
}

// blank skips spaces, if they are allowed.
func (s skipper) blank(at int) int {
	for s.spaces && at >= 0 && at < len(s.text) && (s.text[at] == ' ' || s.text[at] == '\t' || s.text[at] == '\r') {
		at++
	}
	return at
}

// is reports whether a byte is at a place, which may be -1.
func (s skipper) is(at int, c byte) bool { return at >= 0 && at < len(s.text) && s.text[at] == c }

// list skips an object or an array.
func (s skipper) list(at, depth int, end byte, named bool) int {
	if at = s.blank(at + 1); s.is(at, end) {
		return at + 1
	}
	for {
		if named {
			if at = s.blank(s.quoted(at)); !s.is(at, ':') {
				return -1
			}
			at = s.blank(at + 1)
		}
		switch at = s.blank(s.value(at, depth+1)); {
		case s.is(at, ','):
			at = s.blank(at + 1)
		case s.is(at, end):
			return at + 1
		default:
			return -1
		}
	}
}

// quoted skips a string.
func (s skipper) quoted(at int) int {
	if !s.is(at, '"') {
		return -1
	}
	for at++; at < len(s.text); {
		if at+8 <= len(s.text) && ordinary(binary.LittleEndian.Uint64(s.text[at:])) {
			at += 8
			continue
		}
		switch c := s.text[at]; {
		case c == '"':
			return at + 1
		case c < ' ':
			return -1
		case c == '\\':
			if at = s.escape(at); at < 0 {
				return -1
			}
		default:
			at++
		}
	}
	return -1
}

// ordinary reports whether none of eight bytes is a quote, a backslash or a control character.
func ordinary(v uint64) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	quote, slash := v^ones*'"', v^ones*'\\'
	return ((quote-ones)&^quote|(slash-ones)&^slash|(v-ones*' ')&^v)&high == 0
}

// escape skips an escape, but none of a surrogate, about which encoding/json and its neighbours
// decide.
func (s skipper) escape(at int) int {
	if at+1 == len(s.text) {
		return -1
	}
	switch s.text[at+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return at + 2
	case 'u':
	default:
		return -1
	}
	if len(s.text) < at+6 {
		return -1
	}
	digits := s.text[at+2 : at+6]
	for _, c := range digits {
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
			return -1
		}
	}
	if digits[0]|0x20 == 'd' && digits[1] > '7' {
		return -1
	}
	return at + 6
}

func (s skipper) word(at int, word string) int {
	if end := at + len(word); end <= len(s.text) && string(s.text[at:end]) == word {
		return end
	}
	return -1
}

func (s skipper) number(at int) int {
	if s.is(at, '-') {
		at++
	}
	if s.is(at, '0') {
		at++
	} else if at = s.digits(at); at < 0 {
		return -1
	}
	if s.is(at, '.') {
		if at = s.digits(at + 1); at < 0 {
			return -1
		}
	}
	if s.is(at, 'e') || s.is(at, 'E') {
		if at++; s.is(at, '+') || s.is(at, '-') {
			at++
		}
		return s.digits(at)
	}
	return at
}

// digits skips one digit or more.
func (s skipper) digits(at int) int {
	start := at
	for at < len(s.text) && s.text[at] >= '0' && s.text[at] <= '9' {
		at++
	}
	if at == start {
		return -1
	}
	return at
}
