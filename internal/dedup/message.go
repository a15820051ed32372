package dedup

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits on what a sender may name, in bytes.
const (
	MaxStreamName = 64
	MaxName       = 256 // id, group, source and principal
	MaxBody       = 256 << 10
	MaxHeaders    = 16 << 10 // names and values together
)

// A Message is one logical message; it may be delivered many times.
type Message struct {
	// Principal is who sent it, as the front door authenticated it. It scopes the identity. Empty where nobody is authenticated.
	Principal string
	Stream    string
	// ID is the sender's name for the message. Under sequence admission it may be empty; it is then derived from the number.
	ID string
	// Group as the sender named it; empty means the default, see [Message.GroupName].
	Group string

	// Source, Epoch and Sequence number the message under sequence admission. Sequences start at 1; the epoch is the sender's incarnation.
	Source   string
	Epoch    uint64
	Sequence uint64
	// DependsOn lists, by source, the last number of the same principal that must be processed in this group before this message.
	DependsOn map[string]uint64

	ContentType string
	Headers     map[string]string
	Body        []byte

	// Route is the HTTP method and route of a one-time request; empty for a message. It is part of the fingerprint.
	Route string
	// Accepted is when the front door took the message in, zero when unknown.
	Accepted time.Time
	// Retention is how long the message's token remembers that it is done, where the stream does not say; 0 means [DefaultRetention].
	Retention time.Duration
}

// DefaultRetention is how long a done token is remembered where neither the stream nor the message says. It is longer than the 14 days that a
// message can spend in a queue.
const DefaultRetention = 15 * 24 * time.Hour

// GroupName is the group whose state and order the message belongs to: the named one, else the source of a numbered message, else its own id.
func (m *Message) GroupName() string {
	switch {
	case m.Group != "":
		return m.Group
	case m.Source != "":
		return m.Source
	default:
		return m.ID
	}
}

// GroupKey names the message's group record.
func (m *Message) GroupKey() GroupKey { return GroupKey{Stream: m.Stream, Group: m.GroupName()} }

// TokenKey names the message's token.
func (m *Message) TokenKey() TokenKey { return NewTokenKey(m.Principal, m.Stream, m.Identity()) }

// Identity is the id within the stream: the sender's, or source/epoch/sequence for a numbered message without one.
func (m *Message) Identity() string {
	if m.ID != "" || m.Source == "" {
		return m.ID
	}
	return m.number()
}

// SourceKey is the name of the message's source within the group record: scoped by principal, so that nobody can number for somebody else.
func (m *Message) SourceKey() string { return sourceKey(m.Principal, m.Source) }

func sourceKey(principal, source string) string {
	if principal == "" {
		return source
	}
	return principal + "\x1f" + source // validated names hold no control characters
}

// A Fingerprint is the SHA-256 of what a sender meant by a message.
type Fingerprint [sha256.Size]byte

// Fingerprint covers the route of a one-time request, the group and the body. Headers are left out: proxies and tracers change them between tries.
func (m *Message) Fingerprint() Fingerprint {
	h := sha256.New()
	var size [8]byte
	for _, part := range []string{m.Route, m.GroupName()} {
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	h.Write(m.Body)
	var f Fingerprint
	h.Sum(f[:0])
	return f
}

// A GroupKey names a group of a stream: the unit of state, order and concurrency.
type GroupKey struct{ Stream, Group string }

// String gives stream/group, for people and logs.
func (k GroupKey) String() string { return k.Stream + "/" + k.Group }

// A TokenKey is the scoped identity of a message, hashed: no raw key is stored where listings could show it.
type TokenKey [sha256.Size]byte

// String gives the key in hexadecimal.
func (k TokenKey) String() string { return hex.EncodeToString(k[:]) }

// NewTokenKey hashes (principal, stream, id), see [TokenText].
func NewTokenKey(principal, stream, id string) TokenKey {
	return TokenKey(sha256.Sum256(appendTokenText(make([]byte, 0, 256), principal, stream, id)))
}

// TokenText is the readable text that a token key is the hash of.
func TokenText(principal, stream, id string) string {
	return string(appendTokenText(nil, principal, stream, id))
}

func appendTokenText(b []byte, principal, stream, id string) []byte {
	b = strconv.AppendQuote(append(b, "once token principal="...), principal)
	b = strconv.AppendQuote(append(b, " stream="...), stream)
	return strconv.AppendQuote(append(b, " id="...), id)
}

// An InvalidError says which field of a message is wrong and what is allowed.
type InvalidError struct{ Field, Rule string }

func (e *InvalidError) Error() string { return e.Field + " " + e.Rule }

// Validate checks the names, numbers and sizes of a message. The error is an [*InvalidError].
func (m *Message) Validate() error {
	if err := ValidStream(m.Stream); err != nil {
		return err
	}
	for _, n := range []struct{ field, value string }{{"principal", m.Principal}, {"id", m.ID}, {"group", m.Group}, {"source", m.Source}} {
		if err := validName(n.field, n.value); err != nil {
			return err
		}
	}
	switch {
	case m.ID == "" && m.Source == "":
		return &InvalidError{"id", "must not be empty: send a key, or a source and a sequence"}
	case m.Source == "" && (m.Sequence != 0 || m.Epoch != 0):
		return &InvalidError{"source", "must be given with a sequence or an epoch"}
	case m.Source != "" && m.Sequence == 0:
		return &InvalidError{"sequence", "must be at least 1 where a source is given"}
	case len(m.Body) > MaxBody:
		return &InvalidError{"body", fmt.Sprintf("must be at most %d bytes", MaxBody)}
	}
	if m.Source == "" && len(m.DependsOn) > 0 {
		return &InvalidError{"depends-on", "needs a numbered message: send a source and a sequence"}
	}
	for source := range m.DependsOn {
		if err := validName("depends-on", source); err != nil {
			return err
		}
	}
	return m.validHeaders()
}

func (m *Message) validHeaders() error {
	size := len(m.ContentType)
	for name, value := range m.Headers {
		size += len(name) + len(value)
		if name == "" || !utf8.ValidString(name) || !utf8.ValidString(value) {
			return &InvalidError{"headers", "must have names, and be UTF-8 text"}
		}
	}
	if size > MaxHeaders {
		return &InvalidError{"headers", fmt.Sprintf("must be at most %d bytes together", MaxHeaders)}
	}
	return nil
}

// ValidStream checks a stream's name: letters, digits, dot, dash and underscore, starting with a letter or a digit, at most 64.
func ValidStream(name string) error {
	if name == "" || len(name) > MaxStreamName || strings.ContainsAny(name[:1], "._-") {
		return invalidStream()
	}
	for _, r := range name {
		if letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'; !letter && !strings.ContainsRune("0123456789._-", r) {
			return invalidStream()
		}
	}
	return nil
}

func invalidStream() error {
	return &InvalidError{"stream", fmt.Sprintf("must be 1 to %d letters, digits, dots, dashes or underscores, starting with a letter or a digit", MaxStreamName)}
}

func validName(field, value string) error {
	if len(value) > MaxName {
		return &InvalidError{field, fmt.Sprintf("must be at most %d bytes", MaxName)}
	}
	if !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return &InvalidError{field, "must be UTF-8 text without control characters"}
	}
	return nil
}
