package batch

import (
	"encoding/base64"
	"encoding/json"

	"github.com/effectively-once/once/internal/record"
)

// scanLine reads a line of the usual form: one object, each field at most once, names without
// escapes, and a body that is any JSON value. ok is false for every other line, right or wrong;
// encoding/json then reads it. A third of the time of a batch would otherwise be spent there.
func scanLine(line []byte, l *jsonLine) (ok bool) {
	s := scanner{text: line}
	if !s.take('{') {
		return false
	}
	seen := uint(0)
	for {
		name, plain := s.plainText()
		bit := fieldBit(name)
		if !plain || bit == 0 || seen&bit != 0 || !s.take(':') || !s.field(bit, l) {
			return false
		}
		seen |= bit
		if s.take(',') {
			continue
		}
		return s.take('}') && s.at == len(s.text)
	}
}

// One bit for each field that the scanner knows.
const (
	bitKey = 1 << iota
	bitGroup
	bitSource
	bitEpoch
	bitSequence
	bitContentType
	bitBody
	bitBodyBase64
)

func fieldBit(name []byte) uint {
	switch string(name) {
	case "key":
		return bitKey
	case "group":
		return bitGroup
	case "source":
		return bitSource
	case "epoch":
		return bitEpoch
	case "sequence":
		return bitSequence
	case "content_type":
		return bitContentType
	case "body":
		return bitBody
	case "body_base64":
		return bitBodyBase64
	}
	return 0
}

// A scanner reads JSON. After a method has returned false, its place means nothing.
type scanner struct {
	text []byte
	at   int
}

// field reads the value of a field.
func (s *scanner) field(bit uint, l *jsonLine) bool {
	switch bit {
	case bitKey:
		l.Key = new(string)
		return s.name(l.Key)
	case bitGroup:
		return s.name(&l.Group)
	case bitSource:
		return s.name(&l.Source)
	case bitContentType:
		if quoted := `"` + jsonType + `"`; s.has(quoted) {
			l.ContentType, s.at = jsonType, s.at+len(quoted)
			return true
		}
		return s.name(&l.ContentType)
	case bitEpoch:
		return s.number(&l.Epoch)
	case bitSequence:
		return s.number(&l.Sequence)
	case bitBodyBase64:
		l.BodyBase64 = new([]byte)
		return s.binary(l.BodyBase64)
	}
	s.blank()
	end := record.JSONEnd(s.text, s.at)
	if end < 0 {
		return false
	}
	l.Body, s.at = json.RawMessage(s.text[s.at:end:end]), end
	return true
}

func (s *scanner) has(text string) bool {
	s.blank()
	return len(s.text)-s.at >= len(text) && string(s.text[s.at:s.at+len(text)]) == text
}

// blank skips spaces.
func (s *scanner) blank() {
	for s.at < len(s.text) && (s.text[s.at] == ' ' || s.text[s.at] == '\t' || s.text[s.at] == '\r') {
		s.at++
	}
}

// take skips spaces, a byte, and spaces again, if the byte is the next one.
func (s *scanner) take(c byte) bool {
	s.blank()
	if s.at == len(s.text) || s.text[s.at] != c {
		return false
	}
	s.at++
	s.blank()
	return true
}

// plainText reads a string without escapes.
func (s *scanner) plainText() (text []byte, ok bool) {
	s.blank()
	if s.at == len(s.text) || s.text[s.at] != '"' {
		return nil, false
	}
	for i := s.at + 1; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case c == '"':
			text, s.at = s.text[s.at+1:i], i+1
			return text, true
		case c < ' ' || c == '\\':
			return nil, false
		}
	}
	return nil, false
}

func (s *scanner) name(to *string) bool {
	text, ok := s.plainText()
	*to = string(text)
	return ok
}

// binary reads a string of base64.
func (s *scanner) binary(to *[]byte) bool {
	text, ok := s.plainText()
	if !ok {
		return false
	}
	out, err := base64.StdEncoding.AppendDecode(make([]byte, 0, base64.StdEncoding.DecodedLen(len(text))), text)
	*to = out
	return err == nil
}

// number reads a number of at most 18 digits.
func (s *scanner) number(to *uint64) bool {
	s.blank()
	start := s.at
	for s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9' {
		*to = *to*10 + uint64(s.text[s.at]-'0')
		s.at++
	}
	digits := s.at - start
	return digits > 0 && digits <= 18 && (digits == 1 || s.text[start] != '0')
}
