package record

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/effectively-once/once/clock"
)

// Limits on the sizes of a message, in bytes.
const (
	MaxStreamName = 64
	MaxName       = 256 // id, group, source and principal
	// MaxBody is the largest body of a message or an effect: as much as SQS takes. Not every stream
	// takes it, see [Stream.BodyLimit].
	MaxBody = 1 << 20
	// SmallBody is the largest body of a message that a record may have to hold: 256 KiB fit into
	// an item of DynamoDB, which has at most 400 KB. It is also the most that is forwarded to SNS,
	// to EventBridge and to another system: these may take no more.
	SmallBody = 256 << 10
	// QueueBody is the largest body that is forwarded to a queue of SQS: as base64, with its
	// headers escaped in JSON, it still fits into a message of 1 MiB.
	QueueBody    = 640 << 10
	MaxHeaders   = 16 << 10 // names and values together
	MaxDependsOn = 32 << 10 // names of sources, plus 8 for each number
	MaxReply     = 256 << 10
	MaxParents   = 100
	MaxVia       = 16
	// MaxEffect is the largest effect, body and headers, of a system without large bodies: its dead
	// letter fits into a queue of SQS, even if JSON has to escape every character of its headers.
	MaxEffect = 640 << 10
	// LargeEffect replaces MaxEffect in a system with large bodies.
	LargeEffect = MaxBody + MaxHeaders
)

// A Message is one logical message; it may be delivered many times.
type Message struct {
	// Principal is the sender, as authenticated by the HTTP API. It scopes the identity. It is
	// empty if the HTTP API does not authenticate.
	Principal string
	Stream    string
	// ID is the sender's name for the message. If it is empty, which sequence admission allows, the
	// number is the identity.
	ID string
	// Group is the sender's name for the group; if it is empty, see [Message.GroupName]. In a
	// stream with partitions it has the partition in front, see [Stream.Place].
	Group string

	// Source, Epoch and Sequence number the message under sequence admission. Sequences start at 1;
	// the epoch is the sender's incarnation.
	Source   string
	Epoch    uint64
	Sequence uint64
	// DependsOn lists, by source, the last number of the same principal that must be processed in
	// this group before this message.
	DependsOn map[string]uint64
	// Parents are the numbers of entries in the group's log that must be there before this message
	// is processed, unless the stream's gap policy ends the wait.
	Parents []uint64
	// Seen is the hybrid time of the last entry that the sender had seen; 0 if it did not say. It
	// is no part of the fingerprint.
	Seen clock.Hybrid
	// Via names the systems that the message came through before this one, the first one first. It
	// is no part of the fingerprint.
	Via []string
	// Void says that the sender has no message of this number: a system that was linked to this one
	// refused it for good. The number is passed without running a handler. The body is empty.
	Void bool
	// End ends the log of the group: an entry of kind EntryEnd follows the entries of the message,
	// and no later message of the group is processed. If the body is empty, the message ends the
	// log and does nothing else: no handler gets it.
	End bool

	ContentType string
	Headers     map[string]string
	Body        []byte
	// Content is the SHA-256 of the part of the body that is compared, if a service writes the rest
	// of the body anew for each copy of the message. It is zero if all of the body is compared.
	Content [sha256.Size]byte `json:",omitzero"`

	// RedeliveryOf is the id of the entry that a session made a dead letter, if this message is the
	// redriven one; empty otherwise. It is no part of the fingerprint.
	RedeliveryOf string

	// Timer and TimerNumber are set if the message is that of a timer of its group: the timer's name
	// and the number under which the group's record has it, see [Timer]. Only the system itself makes
	// such messages. They are no part of the fingerprint.
	Timer       string `json:",omitzero"`
	TimerNumber uint64 `json:",omitzero"`

	// Route is the HTTP method and route of a one-time request; empty for a message. It is part of
	// the fingerprint.
	Route string
	// Accepted is when the HTTP API accepted the message, or zero if that is unknown. If the
	// message is delayed, it is NotBefore: the age of a message counts from the time when it is
	// due.
	Accepted time.Time
	// NotBefore is when a delayed message is due: it is not processed earlier. It is zero for a
	// message without a delay. It is at most [MaxDelay] ahead when the message is accepted. It is
	// no part of the fingerprint: of two copies with different times, the first that is due is
	// processed, and the other is a duplicate as long as the stream remembers the key.
	NotBefore time.Time `json:",omitzero"`
	// Try is how often the queue has delivered the message, this time included; 0 if no queue did.
	// It is no part of the message: it is neither stored nor part of the fingerprint.
	Try int
}

// MaxDelay is how far ahead a message may be delayed.
const MaxDelay = 365 * 24 * time.Hour

// DefaultRetention is how long a done token is kept if the stream does not set a retention. It is
// longer than the 14 days that a message can stay in a queue. It is the same for messages by HTTP
// and by SQS, because a copy sent the other way may still be in flight.
const DefaultRetention = 15 * 24 * time.Hour

// An InvalidError names the field of a message that is wrong, and the rule for it.
type InvalidError struct{ Field, Rule string }

func (e *InvalidError) Error() string { return e.Field + " " + e.Rule }

// Validate checks the names, numbers and sizes of a message. It returns an [*InvalidError].
func (m *Message) Validate() error {
	if err := ValidStream(m.Stream); err != nil {
		return err
	}
	for _, n := range []struct{ field, value string }{{"principal", m.Principal}, {"id", m.ID}, {"group", m.SenderGroup()}, {"source", m.Source}} {
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
		return &InvalidError{"sequence", "must be at least 1 if a source is given"}
	case len(m.Body) > MaxBody:
		return &InvalidError{"body", fmt.Sprintf("must be at most %d bytes", MaxBody)}
	}
	if m.Source == "" && len(m.DependsOn) > 0 {
		return &InvalidError{"depends-on", "needs a numbered message: send a source and a sequence"}
	}
	if m.Timer != "" || m.TimerNumber != 0 {
		if m.Timer == "" || m.TimerNumber == 0 || m.Group == "" {
			return &InvalidError{"timer", "must have a name, a number and a group"}
		}
		if err := validName("timer", m.Timer); err != nil {
			return err
		}
	}
	if err := m.validDependsOn(); err != nil {
		return err
	}
	if err := m.validParents(); err != nil {
		return err
	}
	if m.Void && (m.Source == "" || len(m.Body) > 0 || m.End) {
		return &InvalidError{"void", "is for a numbered message without a body and without an end"}
	}
	if err := ValidVia(m.Via); err != nil {
		return err
	}
	if !m.Accepted.IsZero() {
		if wrong := m.CheckSeen(m.Accepted); wrong != nil {
			return wrong
		}
	}
	if wrong := m.WrongHeaders(); wrong != nil {
		return wrong
	}
	return nil
}

func (m *Message) validDependsOn() error {
	size := 0
	for source := range m.DependsOn {
		size += len(source) + 8
		if err := validName("depends-on", source); err != nil {
			return err
		}
	}
	if size > MaxDependsOn {
		return &InvalidError{"depends-on", fmt.Sprintf("must be at most %d bytes: the names of the sources, and 8 for each number", MaxDependsOn)}
	}
	return nil
}

func (m *Message) validParents() error {
	switch {
	case len(m.Parents) == 0:
		return nil
	case len(m.Parents) > MaxParents:
		return &InvalidError{"parents", fmt.Sprintf("must be at most %d", MaxParents)}
	case slices.Contains(m.Parents, 0):
		return &InvalidError{"parents", "must be numbers of entries, which start at 1"}
	}
	return nil
}

// ValidVia checks the names of the systems that a message came through. It returns an
// [*InvalidError].
func ValidVia(via []string) error {
	if len(via) > MaxVia {
		return &InvalidError{"via", fmt.Sprintf("must name at most %d systems", MaxVia)}
	}
	for _, name := range via {
		if ValidStream(name) != nil {
			return &InvalidError{"via", fmt.Sprintf("must name systems: each of 1 to %d letters, digits, dots, dashes or underscores, starting with a letter or a digit", MaxStreamName)}
		}
	}
	return nil
}

// LoopDetail says, for people, which way a message came that came back to a system.
func LoopDetail(via []string, system string) string {
	return fmt.Sprintf("the message came back to the system %s: %s -> %s", system, strings.Join(via, " -> "), system)
}

// MaxAhead is how far the time that a sender has seen may be ahead of the clock of this machine.
const MaxAhead = time.Minute

// CheckSeen returns an [*InvalidError] with both times if the sender claims to have seen a time
// that is more than [MaxAhead] ahead of now and of the time of acceptance. A claim that is too high
// would move the time of the group's log ahead for ever.
func (m *Message) CheckSeen(now time.Time) *InvalidError {
	if m.Accepted.After(now) {
		now = m.Accepted
	}
	if m.Seen.Time().After(now.Add(MaxAhead)) {
		return &InvalidError{"time", fmt.Sprintf("must be at most %s ahead: it is %s, and the time here is %s", MaxAhead, m.Seen, clock.HybridAt(now))}
	}
	return nil
}

// WrongHeaders checks the content type and the headers: they must be UTF-8 text, of at most
// [MaxHeaders] together. It returns nil if they are valid.
func (m *Message) WrongHeaders() *InvalidError {
	size := len(m.ContentType)
	for name, value := range m.Headers {
		size += len(name) + len(value)
		if name == "" || !utf8.ValidString(name) || !utf8.ValidString(value) {
			return &InvalidError{"headers", "must have names, and be UTF-8 text"}
		}
	}
	if !utf8.ValidString(m.ContentType) { // a queue would replace the invalid bytes by longer ones
		return &InvalidError{"content-type", "must be UTF-8 text"}
	}
	if size > MaxHeaders {
		return &InvalidError{"headers", fmt.Sprintf("must be at most %d bytes together", MaxHeaders)}
	}
	return nil
}

// ValidStream checks a stream's name: letters, digits, dot, dash and underscore, starting with a
// letter or a digit, at most 64.
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

// Waits reports whether a message is delayed and not due yet.
func (m *Message) Waits(now time.Time) bool { return m.NotBefore.After(now) }

// OnlyEnds reports whether the message has no content: it only ends the log of its group.
func (m *Message) OnlyEnds() bool { return m.End && len(m.Body) == 0 }

// Size returns the size of the body and headers, as the bounds on held messages count it.
func (m *Message) Size() int { return len(m.Body) + headerBytes(m.Headers) + len(m.ContentType) }
