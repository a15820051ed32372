package queue

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// The limits of SQS. Every implementation enforces them, so that a message that one queue accepts
// is accepted by all.
const (
	MaxSize       = 1 << 20 // bytes of the body and of the attributes' names and values together
	MaxAttributes = 10
	MaxGroup      = 128 // characters of a group or a deduplication id
	MaxDelay      = 15 * time.Minute
)

// An InvalidError names the part of a message that breaks a rule, and the rule. A retry can't
// succeed.
type InvalidError struct{ Field, Rule string }

func (e *InvalidError) Error() string { return e.Field + " " + e.Rule }

// FIFO reports whether a queue of that name is first-in-first-out.
func FIFO(name string) bool { return strings.HasSuffix(name, ".fifo") }

// Validate checks a message against the limits of the queue with that name, which is
// first-in-first-out or standard. It returns an [*InvalidError].
func (m *Message) Validate(name string) error {
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
	return m.validAttributes()
}

func (m *Message) validAttributes() error {
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
	if m.Size() > MaxSize {
		return &InvalidError{"message", fmt.Sprintf("must be at most %d bytes", MaxSize)}
	}
	return nil
}

// Size returns how many bytes of [MaxSize] the message uses.
func (m *Message) Size() int {
	size := len(m.Body)
	for name, value := range m.Attributes {
		size += len(name) + len(value)
	}
	return size
}

// ValidText reports whether SQS accepts the text: UTF-8, and only characters that XML 1.0 allows.
func ValidText(s string) bool {
	for i, r := range s {
		switch {
		case r == '\t' || r == '\n' || r == '\r':
		case r < 0x20 || r == 0xFFFE || r == 0xFFFF:
			return false
		case r == utf8.RuneError:
			if _, size := utf8.DecodeRuneInString(s[i:]); size <= 1 {
				return false
			}
		}
	}
	return true
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
