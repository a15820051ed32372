// Package batch reads the records of a batch and writes their results, as JSON lines or as a CBOR
// sequence (RFC 8742).
//
// A record is one message. It fails alone: if it can't be read, its Err says why, and the other
// records are read. Only if the end of a record can't be found, or if there are too many, the whole
// batch is an error, so that no caller takes a part for the whole.
//
// # Limits
//
// The caller bounds the bytes, [Decoder] those of a compressed batch. [MaxRecords] bounds the
// records, [record.MaxBody] the body of each.
package batch

import (
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/effectively-once/once/clock"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
)

// Limits of one batch.
const (
	MaxRecords = 1000
	MaxBytes   = 4 << 20 // as it was sent, and without its compression
)

// Media types of a batch and of its answer.
const (
	NDJSON  = "application/x-ndjson"
	CBORSeq = "application/cbor-seq"
)

// A Record is one message of a batch.
type Record struct {
	// Line is the line of the record, from 1 on; in a CBOR sequence, its place.
	Line int
	// Message has the fields that the record has; the caller sets the others.
	Message record.Message
	// Delayed says that the record has a delay or a not_before. Delay is the former; the latter is
	// in Message.
	Delayed bool
	Delay   time.Duration
	// Err is why the record is not a message.
	Err *problem.Problem
}

// Read returns the records of a batch of a media type, which is [NDJSON] or [CBORSeq]. Bodies may
// refer to data.
func Read(mediaType string, data []byte) ([]Record, error) {
	var records []Record
	var err error
	if mediaType == CBORSeq {
		records, err = readCBOR(data)
	} else {
		records, err = readLines(data)
	}
	if err == nil && len(records) == 0 {
		err = problem.New(problem.MalformedRequest, "The batch has no message.")
	}
	return records, err
}

func tooMany() error {
	return problem.New(problem.TooLarge, fmt.Sprintf("A batch may have at most %d messages. Nothing of it was accepted.", MaxRecords))
}

// fields are the fields of a record in either format.
type fields struct {
	Key         *string           `json:"key"`
	Group       string            `json:"group"`
	Source      string            `json:"source"`
	Epoch       uint64            `json:"epoch"`
	Sequence    uint64            `json:"sequence"`
	DependsOn   map[string]uint64 `json:"depends_on"`
	Parents     []uint64          `json:"parents"`
	Time        string            `json:"time"`
	Via         []string          `json:"via"`
	Void        bool              `json:"void"`
	End         bool              `json:"end"`
	Delay       *string           `json:"delay"`
	NotBefore   *string           `json:"not_before"`
	ContentType string            `json:"content_type"`
	Headers     map[string]string `json:"headers"`
}

// set sets the fields of a record and of its message, except for the body and the content type.
func (f *fields) set(r *Record) *problem.Problem {
	m := &r.Message
	if f.Key != nil {
		if m.ID = *f.Key; m.ID == "" {
			return problem.New(problem.MalformedKey, "key must not be empty.")
		}
	}
	m.Group, m.Source, m.Epoch, m.Sequence = f.Group, f.Source, f.Epoch, f.Sequence
	if len(f.DependsOn) > 0 {
		m.DependsOn = f.DependsOn
	}
	for source, n := range f.DependsOn {
		if source == "" || n == 0 {
			return malformed("depends_on has to name sources, and numbers from 1 on.")
		}
	}
	m.Parents, m.Via, m.Void, m.End = f.Parents, f.Via, f.Void, f.End
	if f.Time != "" {
		seen, err := clock.ParseHybrid(f.Time)
		if err != nil {
			return malformed("time " + wire.TimeRule + ".")
		}
		m.Seen = seen
	}
	if p := f.setDelay(r); p != nil {
		return p
	}
	return setHeaders(m, f.Headers)
}

// setDelay sets when the message is due.
func (f *fields) setDelay(r *Record) *problem.Problem {
	var err error
	switch {
	case f.Delay == nil && f.NotBefore == nil:
		return nil
	case f.Delay != nil && f.NotBefore != nil:
		return malformed("delay and not_before exclude each other.")
	case f.Delay != nil:
		if r.Delay, err = wire.ParseDelay(*f.Delay); err != nil {
			return malformed("delay " + wire.DelayRule + ".")
		}
	default:
		if r.Message.NotBefore, err = wire.ParseNotBefore(*f.NotBefore); err != nil {
			return malformed("not_before " + wire.NotBeforeRule + ".")
		}
	}
	r.Delayed = true
	return nil
}

// setHeaders sets the headers of m, under the names that they have when they are sent by HTTP.
func setHeaders(m *record.Message, headers map[string]string) *problem.Problem {
	if len(headers) == 0 {
		return nil
	}
	m.Headers = make(map[string]string, len(headers))
	for name, value := range headers {
		canonical := http.CanonicalHeaderKey(name)
		if name == wire.HeaderEvent { // of an event that another system forwards
			canonical = name
		}
		switch {
		case !record.IsToken(name) || strings.HasPrefix(canonical, "Once-"):
			return malformed(fmt.Sprintf("header %.64q must have a name that HTTP allows, and that does not begin with Once-.", name))
		case strings.ContainsFunc(value, unicode.IsControl) || strings.Trim(value, " ") != value:
			return malformed(fmt.Sprintf("header %s must have no control characters, and no spaces around it.", canonical))
		}
		if _, twice := m.Headers[canonical]; twice {
			return malformed("header " + canonical + " is there twice.")
		}
		m.Headers[canonical] = value
	}
	return nil
}

const jsonType = "application/json"

func notMedia() *problem.Problem {
	return problem.New(problem.UnsupportedMediaType, "content_type is not a media type.")
}

func malformed(detail string) *problem.Problem {
	return problem.New(problem.MalformedRequest, detail)
}
