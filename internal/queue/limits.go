package queue

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// The limits of SQS. Every implementation enforces them, so that a message that one queue accepts
// is accepted by all, except that [Largest] differs.
const (
	MaxSize = 1 << 20 // bytes of the body and of the attributes' names and values together
	// MaxLarge replaces MaxSize in a queue that keeps large bodies elsewhere, or has no limit of
	// its own: a body of record.MaxBody fits as base64, with its attributes or as an effect in
	// JSON.
	MaxLarge = 2 << 20
	// MaxBeside limits the attributes of a message that is larger than MaxSize: they stay in the
	// message, beside the name of its body.
	MaxBeside     = MaxSize - 4<<10
	MaxAttributes = 10
	MaxGroup      = 128 // characters of a group or a deduplication id
	MaxDelay      = 15 * time.Minute
	// UnreadPause is the pause after which a message is received again whose body could not be read.
	// It does not grow: after as many receives as a queue is set to, at most 1,000, SQS moves the
	// message to the dead-letter queue, and that has to be before it expires after 14 days.
	UnreadPause = 5 * time.Minute
)

// An InvalidError names the part of a message that breaks a rule, and the rule. A retry can't
// succeed.
type InvalidError struct{ Field, Rule string }

func (e *InvalidError) Error() string { return e.Field + " " + e.Rule }

// FIFO reports whether a queue of that name is first-in-first-out.
func FIFO(name string) bool { return strings.HasSuffix(name, ".fifo") }

// Validate checks a message against the limits of the queue with that name, which is
// first-in-first-out or standard. It returns an [*InvalidError].
func (m *Message) Validate(name string) error { return m.validate(name, MaxSize) }

// ValidateLarge is Validate for a queue that takes messages of [MaxLarge].
func (m *Message) ValidateLarge(name string) error { return m.validate(name, MaxLarge) }

func (m *Message) validate(name string, most int) error {
	switch {
	case m.Body == "":
		return &InvalidError{"body", "must not be empty"}
	case !ValidText(m.Body):
		return &InvalidError{"body", "must be UTF-8 text of characters that XML allows"}
	case m.Delay < 0 || m.Delay > MaxDelay:
		return &InvalidError{"delay", fmt.Sprintf("must be between 0 and %s", MaxDelay)}
	case m.Delay > 0 && FIFO(name):
		return &InvalidError{"delay", "must be 0 on a first-in-first-out queue"}
	case m.Group == "" && FIFO(name):
		return &InvalidError{"group", "must be given on a first-in-first-out queue"}
	case m.Group != "" && !ValidGroup(m.Group):
		return &InvalidError{"group", fmt.Sprintf("must be at most %d ASCII letters, digits and punctuation", MaxGroup)}
	case m.DedupID != "" && !ValidGroup(m.DedupID):
		return &InvalidError{"deduplication id", fmt.Sprintf("must be at most %d ASCII letters, digits and punctuation", MaxGroup)}
	}
	return m.validAttributes(most)
}

func (m *Message) validAttributes(most int) error {
	if len(m.Attributes) > MaxAttributes {
		return &InvalidError{"attributes", fmt.Sprintf("must be at most %d", MaxAttributes)}
	}
	for name, value := range m.Attributes {
		if !ValidAttributeName(name) {
			return &InvalidError{"attribute name", "must be letters, digits, dots, dashes or underscores, without AWS. or Amazon. in front"}
		}
		if value == "" || !ValidText(value) {
			return &InvalidError{"attribute " + name, "must be text of characters that XML allows, and not empty"}
		}
	}
	switch size := m.Size(); {
	case size > most:
		return &InvalidError{"message", fmt.Sprintf("must be at most %d bytes", most)}
	case size > MaxSize && size-len(m.Body) > MaxBeside:
		return &InvalidError{"attributes", fmt.Sprintf("must be at most %d bytes together, beside a large body", MaxBeside)}
	}
	return nil
}

// Largest returns the size of the largest message that a queue takes: [MaxSize], unless the queue
// says that it takes [MaxLarge].
func Largest(q Queue) int {
	if x, ok := q.(interface{ Largest() int }); ok {
		return x.Largest()
	}
	return MaxSize
}

// Size returns how many bytes of [MaxSize] the message uses.
func (m *Message) Size() int {
	size := len(m.Body)
	for name, value := range m.Attributes {
		size += len(name) + len(value)
	}
	return size
}

// SentSize returns the size of a message as SQS and SNS count it: with the types of attributes.
func (m *Message) SentSize() int { return m.Size() + len(m.Attributes)*len("String") }

// ValidText reports whether SQS accepts the text: UTF-8, and only characters that XML 1.0 allows.
func ValidText(s string) bool {
	for i := 0; i < len(s); {
		if i += printable(s[i:]); i == len(s) {
			return true
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\t' || r == '\n' || r == '\r':
		case r < ' ' || r == 0xFFFE || r == 0xFFFF, r == utf8.RuneError && size == 1:
			return false
		}
		i += size
	}
	return true
}

// printable returns the length of a prefix of s that has only ASCII characters from the space on.
// It looks at eight bytes at a time, because a body has a thousand of them.
func printable(s string) (n int) {
	const high, spaces = 0x8080808080808080, 0x2020202020202020
	for ; n+8 <= len(s); n += 8 {
		// in this order, so that the compiler makes one load of it
		x := uint64(s[n]) | uint64(s[n+1])<<8 | uint64(s[n+2])<<16 | uint64(s[n+3])<<24 |
			uint64(s[n+4])<<32 | uint64(s[n+5])<<40 | uint64(s[n+6])<<48 | uint64(s[n+7])<<56
		// A byte below the space borrows. Then its own high bit is set in the difference, or that
		// of a byte after it.
		if (x|(x-spaces))&high != 0 {
			break
		}
	}
	for n < len(s) && s[n] >= ' ' && s[n] < utf8.RuneSelf {
		n++
	}
	return n
}

// ValidGroup reports whether SQS accepts a message group or a deduplication id: 1 to 128 visible
// ASCII characters.
func ValidGroup(s string) bool {
	if s == "" || len(s) > MaxGroup {
		return false
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// ValidAttributeName reports whether SQS accepts the name of a message attribute.
func ValidAttributeName(name string) bool {
	lower := strings.ToLower(name)
	if name == "" || len(name) > 256 || name[0] == '.' || name[len(name)-1] == '.' || strings.Contains(name, "..") ||
		strings.HasPrefix(lower, "aws.") || strings.HasPrefix(lower, "amazon.") {
		return false
	}
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}
