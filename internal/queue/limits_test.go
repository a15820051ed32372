package queue

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestAMessageIsCheckedAgainstTheLimitsOfSQS(t *testing.T) {
	many := map[string]string{}
	for n := range strings.SplitSeq("a b c d e f g h i j k", " ") {
		many[n] = "x"
	}
	for _, c := range []struct {
		name  string
		queue string
		m     Message
		field string
	}{
		{"plain", "q", Message{Body: "x"}, ""},
		{"a group on a standard queue", "q", Message{Body: "x", Group: "g"}, ""},
		{"unicode", "q", Message{Body: "Größe 😀 \t\n\r \uFFFD", Attributes: map[string]string{"a.b-c_1": "é"}}, ""},
		{"first in first out", "q.fifo", Message{Body: "x", Group: "a/b~(c)"}, ""},
		{"empty body", "q", Message{}, "body"},
		{"control character", "q", Message{Body: "a\x00"}, "body"},
		{"not a character", "q", Message{Body: "\uFFFF"}, "body"},
		{"not UTF-8", "q", Message{Body: "a\xff"}, "body"},
		{"too large", "q", Message{Body: strings.Repeat("x", MaxSize), Attributes: map[string]string{"a": "b"}}, "message"},
		{"delay too long", "q", Message{Body: "x", Delay: MaxDelay + 1}, "delay"},
		{"delay below zero", "q", Message{Body: "x", Delay: -1}, "delay"},
		{"delay in a group", "q.fifo", Message{Body: "x", Group: "g", Delay: time.Second}, "delay"},
		{"no group", "q.fifo", Message{Body: "x"}, "group"},
		{"group with a space", "q.fifo", Message{Body: "x", Group: "a b"}, "group"},
		{"long group", "q.fifo", Message{Body: "x", Group: strings.Repeat("g", 129)}, "group"},
		{"deduplication id", "q.fifo", Message{Body: "x", Group: "g", DedupID: "é"}, "deduplication id"},
		{"eleven attributes", "q", Message{Body: "x", Attributes: many}, "attributes"},
		{"reserved attribute", "q", Message{Body: "x", Attributes: map[string]string{"aws.x": "1"}}, "attribute name"},
		{"empty attribute", "q", Message{Body: "x", Attributes: map[string]string{"a": ""}}, "attribute a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.m.Validate(c.queue)
			got := ""
			if err != nil {
				got = func() *InvalidError {
					target := &InvalidError{}
					_ = errors.As(err, &target)
					return target
				}().Field
			}
			if got != c.field {
				t.Errorf("field %q, want %q (%v)", got, c.field, err)
			}
		})
	}
}

// TestTextOfAnyLengthIsCheckedCharacterByCharacter puts each character at each place of a word of
// eight bytes, because so many are looked at together.
func TestTextOfAnyLengthIsCheckedCharacterByCharacter(t *testing.T) {
	for _, c := range []struct {
		text  string
		valid bool
	}{
		{" ", true},
		{"~", true},
		{"\x7f", true},
		{"\t", true},
		{"\n", true},
		{"\r", true},
		{"é", true},
		{"\uFFFD", true},
		{"😀", true},
		{"\x00", false},
		{"\x08", false},
		{"\x0b", false},
		{"\x1f", false},
		{"\x80", false},
		{"\xff", false},
		{"\xe2\x82", false},
		{"\uFFFE", false},
		{"\uFFFF", false},
	} {
		for before := range 20 {
			for after := range 20 {
				text := strings.Repeat("x", before) + c.text + strings.Repeat(" ", after)
				if ValidText(text) != c.valid {
					t.Errorf("%q: %v", text, !c.valid)
				}
			}
		}
	}
}
