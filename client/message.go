package client

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dunglas/httpsfv"

	"github.com/effectively-once/once/clock"
)

// Message is one logical message.
type Message struct {
	// Stream is the message's stream. Required.
	Stream string
	// Key identifies the message within its stream. If it is empty, Send generates one, unless the
	// message has a Source: then its number identifies it.
	Key string
	// Group is the unit of state and order. Defaults to the source, or to the key if there is no
	// source.
	Group string
	// Source, Epoch and Sequence number the message: the sender's name, its incarnation, and 1, 2,
	// 3 …
	Source   string
	Epoch    uint64
	Sequence uint64
	// DependsOn lists, by source, the last number that must be processed in the group before this
	// message. Sources must be lowercase names here.
	DependsOn map[string]uint64
	// Parents are the numbers of entries in the group's log that this message answers: it is
	// processed after them. At most 100.
	Parents []uint64
	// Seen is the time of the last entry that the sender has read. The entry of this message gets a
	// later time. The server refuses a time that is more than a minute ahead of its clock.
	Seen clock.Hybrid
	// End ends the log of the group with this message: no later message of the group is processed.
	// Without a body, the message ends the log and does nothing else.
	End bool
	// NotBefore delays the message: it is processed at this time or later. It is at most 365 days
	// ahead, and not for numbered streams and streams with pools. A zero time, and one that is
	// over, are no delay. A delayed message has no reply to wait for: Wait must be 0.
	NotBefore time.Time
	// ContentType is the media type of the body. Defaults to none.
	ContentType string
	// Headers are part of the message. Their names start with X-, except Traceparent and
	// Tracestate.
	Headers map[string]string
	Body    []byte
	// Wait asks the server to return the handler's reply if it is ready within this time: whole
	// seconds, rounded up, at most 60. 0 does not wait.
	Wait time.Duration
}

// Receipt says that a message is durable.
type Receipt struct {
	ID     string `json:"id"`
	Stream string `json:"stream"`
	Group  string `json:"group"`
	// Status is done if the server has processed the message, because the call waited for it or
	// because nothing of its group was queued; otherwise accepted.
	Status string `json:"status"`
	// NotBefore is when a delayed message is due. It is zero for other messages, and in the results
	// of [Client.SendBatch].
	NotBefore time.Time `json:"not_before,omitzero"`
	// Replayed is true when the server had the message before.
	Replayed bool `json:"replayed,omitempty"`
	// Location is the absolute URL at which the message can be looked up. It is empty if the
	// message is done: then a Location header belongs to the handler's reply.
	Location string `json:"location,omitempty"`
	// Reply is the handler's reply, if the call waited and the handler replied in time.
	Reply *Reply `json:"reply,omitempty"`
}

// Reply is a handler's reply.
type Reply struct {
	Status int         `json:"status"`
	Header http.Header `json:"header,omitempty"`
	Body   []byte      `json:"body,omitempty"`
	// Replayed is true if this is a stored reply and the handler did not run again.
	Replayed bool `json:"replayed,omitempty"`
}

// identity returns the message's id in a receipt: its key, or its number if it has none.
func (m *Message) identity() string {
	if m.Key != "" {
		return m.Key
	}
	var memory [128]byte
	b := append(append(memory[:0], m.Source...), '/')
	b = append(strconv.AppendUint(b, m.Epoch, 10), '/')
	return string(strconv.AppendUint(b, m.Sequence, 10))
}

// maxKey is the server's limit on names, in bytes.
const maxKey = 256

// header returns the HTTP headers that describe the message.
func (m *Message) header() (http.Header, error) {
	h := http.Header{}
	if err := m.describe(h.Set); err != nil {
		return nil, err
	}
	if m.Wait > 0 {
		h.Set("Prefer", "wait="+strconv.FormatInt(int64((m.Wait+time.Second-1)/time.Second), 10))
	}
	return h, nil
}

// describe calls set with the headers that describe the message.
func (m *Message) describe(set func(name, value string)) error {
	var wrong error
	checked := func(name, value string) {
		if strings.ContainsFunc(value, unicode.IsControl) {
			wrong = fmt.Errorf("%s must not hold control characters", name)
		}
		set(name, value)
	}
	err := errors.Join(m.names(checked), m.numbers(checked), m.own(checked))
	if m.ContentType != "" {
		checked("Content-Type", m.ContentType)
	}
	if err = cmp.Or(err, wrong); err != nil {
		return fmt.Errorf("describe message: %w", err)
	}
	return nil
}

func (m *Message) names(set func(name, value string)) error {
	if m.Stream == "" {
		return errors.New("stream must not be empty")
	}
	if m.Key != "" {
		key, err := httpsfv.Marshal(httpsfv.NewItem(m.Key))
		if err != nil || len(m.Key) > maxKey {
			return fmt.Errorf("key must be at most %d characters of printable ASCII", maxKey)
		}
		set("Idempotency-Key", key)
	}
	for _, n := range [...]struct{ name, header, value string }{{"group", "Once-Group", m.Group}, {"source", "Once-Source", m.Source}} {
		if n.value == "" {
			continue
		}
		if len(n.value) > maxKey || strings.Trim(n.value, " \t") != n.value {
			return fmt.Errorf("%s must be at most %d bytes, without spaces around it", n.name, maxKey)
		}
		set(n.header, n.value)
	}
	if m.End {
		set("Once-End", "true")
	}
	return m.delay(set)
}

// delay adds the time when the message is due.
func (m *Message) delay(set func(name, value string)) error {
	switch {
	case m.NotBefore.IsZero():
		return nil
	case m.Wait > 0:
		return errors.New("a delayed message has no reply to wait for")
	case m.NotBefore.Year() > 9999:
		return errors.New("the time before which a message is not processed must be at most 365 days ahead")
	}
	set("Once-Not-Before", m.notBefore())
	return nil
}

// notBefore returns the time when the message is due, as the server reads it.
func (m *Message) notBefore() string { return m.NotBefore.UTC().Format(time.RFC3339Nano) }

func (m *Message) numbers(set func(name, value string)) error {
	switch {
	case m.Source == "" && (m.Sequence != 0 || m.Epoch != 0 || len(m.DependsOn) > 0):
		return errors.New("source must be given with a sequence, an epoch or dependencies")
	case m.Source == "":
		m.causes(set)
		return nil
	case m.Sequence == 0:
		return errors.New("sequence must be at least 1 if a source is given")
	}
	set("Once-Sequence", strconv.FormatUint(m.Sequence, 10))
	if m.Epoch != 0 {
		set("Once-Epoch", strconv.FormatUint(m.Epoch, 10))
	}
	m.causes(set)
	if len(m.DependsOn) == 0 {
		return nil
	}
	dictionary := httpsfv.NewDictionary()
	for source, n := range m.DependsOn {
		dictionary.Add(dictionaryKey(source), httpsfv.NewItem(int64(n))) //nolint:gosec // Marshal refuses numbers over 15 digits
	}
	text, err := httpsfv.Marshal(dictionary)
	if err != nil {
		return fmt.Errorf("dependencies: %w", err)
	}
	set("Once-Depends-On", text)
	return nil
}

// dictionaryKey returns a source as the key of a structured-field dictionary: a byte that a key
// can't hold is an asterisk and two hexadecimal digits.
func dictionaryKey(source string) string {
	var b strings.Builder
	for i := range len(source) {
		c := source[i]
		if c >= 'a' && c <= 'z' || i > 0 && (c >= '0' && c <= '9' || strings.IndexByte("_-.", c) >= 0) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "*%02x", c)
		}
	}
	return b.String()
}

// causes adds the entries that the message answers, and the time that the sender has seen.
func (m *Message) causes(set func(name, value string)) {
	if m.Seen != 0 {
		set("Once-Time", m.Seen.String())
	}
	if len(m.Parents) > 0 {
		texts := make([]string, len(m.Parents))
		for i, n := range m.Parents {
			texts[i] = strconv.FormatUint(n, 10)
		}
		set("Once-Parents", strings.Join(texts, ", "))
	}
}

// own adds the message's own headers.
func (m *Message) own(set func(name, value string)) error {
	for name, value := range m.Headers {
		if !isToken(name) || strings.HasPrefix(strings.ToLower(name), "once-") {
			return fmt.Errorf("header %q must have a name that is valid in HTTP and does not start with once-", name)
		}
		set("Once-Header-"+name, value)
	}
	return nil
}

// isToken reports whether HTTP allows a header of that name.
func isToken(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		return !letter && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// Validate returns the error that Send would return for invalid fields before it sends anything. An
// empty key is valid.
func (m *Message) Validate() error {
	return m.describe(func(string, string) {})
}
