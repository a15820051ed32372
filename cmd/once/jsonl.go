package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/effectively-once/once/client"
	frontbatch "github.com/effectively-once/once/internal/front/batch"
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
	// key returns a key for a line that has neither a key nor a source; if it is nil, the client
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
		m, err := parseLine(r.stream, bytes.Clone(text))
		if err == nil {
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

// parseLine reads a line as the server reads one of a batch.
func parseLine(stream string, text []byte) (client.Message, error) {
	r := frontbatch.Line(text)
	if r.Err != nil {
		return client.Message{}, errors.New(strings.TrimSuffix(r.Err.Detail, "."))
	}
	m := &r.Message
	switch {
	case m.Void || m.Via != nil:
		return client.Message{}, errors.New("void and via are for messages of other systems")
	case m.Body == nil && !m.End:
		return client.Message{}, errors.New("body is missing")
	case r.Delay > 0:
		m.NotBefore = time.Now().Add(r.Delay)
	}
	return client.Message{
		Stream: stream, Key: m.ID, Group: m.Group, Source: m.Source, Epoch: m.Epoch, Sequence: m.Sequence, DependsOn: m.DependsOn, Parents: m.Parents, Seen: m.Seen, End: m.End,
		NotBefore: m.NotBefore, ContentType: m.ContentType, Headers: m.Headers, Body: m.Body,
	}, nil
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
