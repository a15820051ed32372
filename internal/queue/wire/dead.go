package wire

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

const (
	// maxReason limits the once-reason attribute, in bytes.
	maxReason = 2048
	// beside is what the reason of a dead letter takes. SQS also counts the types of attributes,
	// which are String.
	beside = len(AttrReason) + maxReason + queue.MaxAttributes*len("String")
	// maxLetter limits a dead letter from which parts are left out, without its reason.
	maxLetter = queue.MaxSize - beside
	// attrCut is the header of a letter from which parts were removed. No sender may use it, so the
	// letter stays invalid: it must not be redriven as a different message.
	attrCut = prefix + "cut"
)

// ToDeadLetter returns a message for a dead-letter queue that takes messages of largest bytes, see
// [queue.Largest]: the result of ToQueue, or of ToRedelivery for an effect, plus the reason.
// Redriving it loses nothing and changes no identity. A message that breaks the limits may be too
// large for a letter. Then parts are left out, which the reason lists, and it can't be redriven.
func ToDeadLetter(r record.Refused, largest int) queue.Message {
	var m queue.Message
	var lacks string
	if r.Delivery != nil {
		m = ToRedelivery(r.To, *r.Delivery)
	} else {
		m, lacks = fitting(&r, largest)
	}
	m.Attributes[AttrReason] = formatReason(r.Reason, r.Detail, lacks)
	return m
}

// fitting returns a message that fits into the dead-letter queue, and a list of the parts that were
// left out. It leaves out as little as necessary, starting with the parts that are least useful for
// finding the sender.
func fitting(r *record.Refused, largest int) (letter queue.Message, lacks string) {
	m := r.Message
	letter = toQueue(m, r.Session, r.Number)
	if fits(&letter, largest) {
		return letter, ""
	}
	var left []string
	size := m.Size() - len(m.Body)
	m.ContentType, m.Headers = "", map[string]string{attrCut: "see " + AttrReason}
	if size > 0 {
		left = append(left, fmt.Sprintf("headers (%d bytes)", size))
	}
	for _, cut := range []func(m *record.Message, over int) []string{cutBody, cutDependencies, cutNames} {
		letter = toQueue(m, r.Session, r.Number)
		if !fits(&letter, largest) {
			left = append(left, cut(&m, max(letter.Size()-maxLetter, 0))...)
		}
	}
	return toQueue(m, r.Session, r.Number), "; too large for a dead letter, left out: " + strings.Join(left, ", ")
}

// fits reports whether a letter and its reason fit into a queue that takes messages of largest
// bytes.
func fits(letter *queue.Message, largest int) bool {
	size := letter.Size()
	return size <= maxLetter || size+beside <= largest && size-len(letter.Body)+beside <= queue.MaxBeside
}

func cutBody(m *record.Message, over int) []string {
	if len(m.Body) == 0 {
		return nil
	}
	text, encoding := encodeBody(m.Body)
	size, keep := len(m.Body), max(0, len(text)-over)
	if encoding != "" {
		keep = min(keep/4*3, size) // four characters of base64 are three bytes
	}
	// half a character would make it binary, and longer
	for encoding == "" && keep > 0 && !utf8.RuneStart(m.Body[keep]) {
		keep--
	}
	m.Body = m.Body[:keep]
	return []string{fmt.Sprintf("the body behind its first %d of %d bytes", keep, size)}
}

func cutDependencies(m *record.Message, _ int) []string {
	size := len(formatDependsOn(m.DependsOn))
	if m.DependsOn = nil; size == 0 {
		return nil
	}
	return []string{fmt.Sprintf("dependencies (%d bytes)", size)}
}

// cutNames shortens names that are too long for any message.
func cutNames(m *record.Message, _ int) []string {
	var ends []string
	for _, n := range []struct {
		what string
		name *string
	}{{"stream", &m.Stream}, {"id", &m.ID}, {"group", &m.Group}, {"source", &m.Source}, {"principal", &m.Principal}, {"route", &m.Route}} {
		if size := len(*n.name); size > record.MaxName {
			*n.name = strings.ToValidUTF8((*n.name)[:record.MaxName], "")
			ends = append(ends, fmt.Sprintf("the %s behind its first %d of %d bytes", n.what, len(*n.name), size))
		}
	}
	return ends
}

// formatReason writes "reason: detail" and the end, and shortens the detail if necessary.
func formatReason(reason record.Reason, detail, end string) string {
	text := strings.Map(func(r rune) rune {
		if queue.ValidText(string(r)) {
			return r
		}
		return '\uFFFD'
	}, string(reason)+": "+strings.ToValidUTF8(detail, "\uFFFD"))
	if most := maxReason - len(end); len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text + end
}

func parseReason(text string) (record.Reason, string) {
	reason, detail, _ := strings.Cut(text, ": ")
	if reason == "" {
		return record.ReasonAttempts, detail
	}
	return record.Reason(reason), detail
}
