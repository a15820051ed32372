package batch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

// readLines reads JSON lines. Blank lines are no records.
func readLines(data []byte) ([]Record, error) {
	records := make([]Record, 0, min(MaxRecords, bytes.Count(data, []byte{'\n'})+1))
	for n := 1; len(data) > 0; n++ {
		if data[0] == '\n' { // a batch of blank lines is read as fast as any other
			data = data[1:]
			continue
		}
		line := data
		if end := bytes.IndexByte(data, '\n'); end >= 0 {
			line, data = data[:end], data[end+1:]
		} else {
			data = nil
		}
		if line = bytes.Trim(line, " \t\r"); len(line) == 0 {
			continue
		}
		if len(records) == MaxRecords {
			return nil, tooMany()
		}
		records = append(records, Record{Line: n})
		r := &records[len(records)-1]
		r.Err = readLine(line, r)
	}
	return records, nil
}

// Line returns the message of one line, without spaces around it. Its body may refer to the line.
func Line(line []byte) (r Record) {
	r.Err = readLine(line, &r)
	return r
}

// readLine reads a line by the scanner if it has the usual form, otherwise by encoding/json, whose
// rules both follow: of a field that is there twice, the last one counts.
func readLine(line []byte, r *Record) *problem.Problem {
	if !utf8.Valid(line) {
		return malformed("it is not UTF-8 text.")
	}
	var l jsonLine
	if !scanLine(line, &l) {
		l = jsonLine{}
		if err := decodeLine(line, &l); err != nil {
			return malformed(err.Error() + ".")
		}
	}
	if p := l.set(r); p != nil {
		return p
	}
	return l.setBody(&r.Message)
}

// jsonLine is one line.
type jsonLine struct {
	fields
	Body       json.RawMessage `json:"body"`
	BodyBase64 *[]byte         `json:"body_base64"`
}

func decodeLine(line []byte, l *jsonLine) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(l); err != nil {
		return plainly(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is text after the JSON object")
	}
	// encoding/json replaces halves of surrogate pairs, which would make one key of two
	if l.replaced() && loneSurrogate(line) {
		return errors.New("it has one half of a surrogate pair")
	}
	return nil
}

// replaced reports whether a name or a header has the character that stands for invalid ones.
func (f *fields) replaced() bool {
	has := func(s string) bool { return strings.ContainsRune(s, utf8.RuneError) }
	if f.Key != nil && has(*f.Key) || has(f.Group) || has(f.Source) || has(f.ContentType) {
		return true
	}
	for source := range f.DependsOn {
		if has(source) {
			return true
		}
	}
	for name, value := range f.Headers {
		if has(name) || has(value) {
			return true
		}
	}
	return false
}

// plainly returns an error without the names of Go.
func plainly(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case ok && wrong.Field == "":
		return fmt.Errorf("a record must be a JSON object, not %s", article(wrong.Value))
	case ok:
		return fmt.Errorf("%s must not be %s", strings.TrimPrefix(wrong.Field, "fields."), article(wrong.Value))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON object ends early")
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	if field, unknown := strings.CutPrefix(text, "unknown field "); unknown {
		return fmt.Errorf("unknown field %.80s", field)
	}
	if _, syntax := errors.AsType[*json.SyntaxError](err); syntax {
		return fmt.Errorf("it is not JSON: %s", text)
	}
	return errors.New("body_base64 must be base64 (RFC 4648)")
}

func article(noun string) string {
	if noun[0] == 'a' || noun[0] == 'o' {
		return "an " + noun
	}
	return "a " + noun
}

// setBody sets the body of m, and its type. Without a content type, a body is JSON.
func (l *jsonLine) setBody(m *record.Message) *problem.Problem {
	m.ContentType = l.ContentType
	switch {
	case l.BodyBase64 != nil && l.Body != nil:
		return malformed("body and body_base64 exclude each other.")
	case l.Body == nil:
		if l.BodyBase64 != nil {
			m.Body = *l.BodyBase64
		}
		if _, ok := record.MediaType(m.ContentType); !ok && m.ContentType != "" {
			return notMedia()
		}
		return nil
	case m.ContentType == "":
		m.ContentType = jsonType
	}
	asJSON, ok := record.MediaType(m.ContentType)
	switch {
	case !ok:
		return notMedia()
	case asJSON:
		m.Body = l.Body
		return nil
	}
	var text string
	if err := json.Unmarshal(l.Body, &text); err != nil || l.Body[0] != '"' || loneSurrogate(l.Body) {
		return malformed(fmt.Sprintf("body must be a JSON string if content_type is %.64s.", m.ContentType))
	}
	m.Body = []byte(text)
	return nil
}

// loneSurrogate reports whether JSON has an escape of one half of a surrogate pair without the
// other one.
func loneSurrogate(text []byte) bool {
	for {
		at := bytes.IndexByte(text, '\\')
		if at < 0 || at+1 >= len(text) {
			return false
		}
		text = text[at:]
		switch surrogate(text) {
		case 'h':
			if surrogate(text[6:]) != 'l' {
				return true
			}
			text = text[12:]
		case 'l':
			return true
		default:
			text = text[2:]
		}
	}
}

// surrogate returns h or l if text begins with the escape of a high or a low surrogate.
func surrogate(text []byte) byte {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' || text[2]|0x20 != 'd' {
		return 0
	}
	switch c := text[3] | 0x20; {
	case c == '8' || c == '9' || c == 'a' || c == 'b':
		return 'h'
	case c >= 'c' && c <= 'f':
		return 'l'
	}
	return 0
}
