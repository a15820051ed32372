package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/clock"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// maxLine limits a line of a file, in bytes: enough for a body of the largest size, escaped or in
// base64.
const maxLine = 4 << 20

// line is one message of a file of JSON lines.
type line struct {
	number  int
	message client.Message
}

// lineError is an error in a line.
type lineError struct {
	number int
	err    error
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %v", e.number, e.err) }
func (e *lineError) Unwrap() error { return e.err }

// lineReader reads the messages of a stream, one by one.
type lineReader struct {
	scanner *bufio.Scanner
	stream  string
	number  int
	// key returns a key for a line that has neither an id nor a source; if it is nil, the client
	// makes one.
	key func(number int) string
}

func newLineReader(r io.Reader, stream string, key func(int) string) *lineReader {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(make([]byte, 64<<10), maxLine)
	return &lineReader{scanner: scanner, stream: stream, key: key}
}

// next returns the next message, io.EOF after the last one, or a *lineError. Unless the error is a
// *brokenError, reading can continue after it.
func (r *lineReader) next() (line, error) {
	for r.scanner.Scan() {
		r.number++
		text := bytes.TrimSpace(r.scanner.Bytes())
		if r.number == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff"))
		}
		if len(text) == 0 {
			continue
		}
		m, err := parseLine(text)
		if err == nil {
			m.Stream = r.stream
			if m.Key == "" && m.Source == "" && r.key != nil {
				m.Key = r.key(r.number)
			}
			err = validate(m)
		}
		if err != nil {
			return line{}, &lineError{r.number, err}
		}
		return line{r.number, m}, nil
	}
	if err := r.scanner.Err(); errors.Is(err, bufio.ErrTooLong) {
		return line{}, &brokenError{&lineError{r.number + 1, fmt.Errorf("must be at most %d bytes long", maxLine)}}
	} else if err != nil {
		return line{}, &brokenError{fmt.Errorf("read line %d: %w", r.number+1, err)}
	}
	return line{}, io.EOF
}

// brokenError says that reading cannot continue.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return e.err.Error() }
func (e *brokenError) Unwrap() error { return e.err }

// jsonLine is the format of a line.
type jsonLine struct {
	ID          *string           `json:"id"`
	Group       string            `json:"group"`
	Source      string            `json:"source"`
	Epoch       uint64            `json:"epoch"`
	Sequence    uint64            `json:"sequence"`
	DependsOn   map[string]uint64 `json:"depends_on"`
	Parents     []uint64          `json:"parents"`
	Time        clock.Hybrid      `json:"time"`
	End         bool              `json:"end"`
	Delay       string            `json:"delay"`
	NotBefore   time.Time         `json:"not_before"`
	Headers     map[string]string `json:"headers"`
	ContentType string            `json:"content_type"`
	Body        json.RawMessage   `json:"body"`
	BodyBase64  *[]byte           `json:"body_base64"`
}

func parseLine(text []byte) (client.Message, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var r jsonLine
	if err := d.Decode(&r); err != nil {
		return client.Message{}, fmt.Errorf("not a message: %w", plainly(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return client.Message{}, errors.New("text after the JSON object: write one object a line")
	}
	m := client.Message{
		Group: r.Group, Source: r.Source, Epoch: r.Epoch, Sequence: r.Sequence, DependsOn: r.DependsOn, Parents: r.Parents, Seen: r.Time, End: r.End, Headers: r.Headers, ContentType: r.ContentType,
	}
	if r.ID != nil {
		if m.Key = *r.ID; m.Key == "" {
			return m, errors.New("id must not be empty")
		}
	}
	var err error
	if m.NotBefore, err = dueAt(r.Delay, r.NotBefore); err != nil {
		return m, err
	}
	return m, r.body(&m)
}

// dueAt returns when a message is due that has a delay from now on, or a time, or neither.
func dueAt(delay string, notBefore time.Time) (time.Time, error) {
	if delay == "" {
		return notBefore, nil
	}
	if !notBefore.IsZero() {
		return notBefore, errors.New("delay and not_before exclude each other")
	}
	d, err := wire.ParseDelay(delay)
	if err != nil {
		return notBefore, errors.New("delay " + wire.DelayRule)
	}
	if d == 0 {
		return notBefore, nil
	}
	return time.Now().Add(d), nil
}

// plainly says which field has a value of the wrong type, without the names of Go types.
func plainly(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case !ok:
		return err
	case wrong.Field == "":
		return fmt.Errorf("must be a JSON object, not a %s", wrong.Value)
	}
	return fmt.Errorf("%s must not be a %s", wrong.Field, wrong.Value)
}

// body sets the body of m, and its type if the line has none.
func (r *jsonLine) body(m *client.Message) error {
	switch {
	case r.BodyBase64 != nil && r.Body != nil:
		return errors.New("body and body_base64 exclude each other")
	case r.BodyBase64 != nil:
		m.Body = *r.BodyBase64
		return nil
	case r.Body == nil && r.End:
		return nil
	case r.Body == nil:
		return errors.New("body is missing")
	}
	if m.ContentType == "" {
		m.ContentType = "application/json"
	}
	if record.IsJSON(m.ContentType) {
		m.Body = r.Body
		return nil
	}
	var text string
	if err := json.Unmarshal(r.Body, &text); err != nil {
		return fmt.Errorf("body must be a JSON string if the content_type is %s", m.ContentType)
	}
	m.Body = []byte(text)
	return nil
}

// validate returns errors that the server would return, as far as they can be detected here.
func validate(m client.Message) error {
	if err := m.Validate(); err != nil {
		return err
	}
	same := record.Message{
		Stream: m.Stream, ID: m.Key, Group: m.Group, Source: m.Source, Epoch: m.Epoch, Sequence: m.Sequence, DependsOn: m.DependsOn, Parents: m.Parents, Seen: m.Seen, End: m.End,
		ContentType: m.ContentType, Headers: m.Headers, Body: m.Body,
	}
	if same.ID == "" && same.Source == "" {
		same.ID = "to be made"
	}
	return same.Validate()
}

// contentKey derives keys from a file's SHA-256 and the line's number: if the same file is sent
// again, its messages have the same keys.
func contentKey(sum [sha256.Size]byte) func(int) string {
	return func(number int) string {
		key := sha256.Sum256(fmt.Appendf(nil, "once line %d of file %x", number, sum))
		return "line-" + hex.EncodeToString(key[:16])
	}
}
