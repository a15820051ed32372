package plain

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Safe escapes the characters of text with which a sender could change the text around it: control
// characters (C0 and C1), bidirectional overrides and other invisible format characters, line and
// paragraph separators, and bytes that are not UTF-8. Spaces stay.
func Safe(text string) string { return escape(text, "") }

// SafeLines is Safe for text of several lines: line feeds and tabs stay.
func SafeLines(text string) string { return escape(text, "\n\t") }

func escape(text, keep string) string {
	var out strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, text[0])
		case unicode.IsPrint(r), unicode.Is(unicode.Zs, r), strings.ContainsRune(keep, r):
			out.WriteRune(r)
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		case r < 0x80:
			fmt.Fprintf(&out, `\x%02x`, r)
		case r <= 0xffff:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			fmt.Fprintf(&out, `\U%08x`, r)
		}
		text = text[size:]
	}
	return out.String()
}

// Quote returns a value as a shell reads it.
func Quote(value string) string {
	if strings.ContainsFunc(value, func(r rune) bool {
		return !strings.ContainsRune("/._-:@%+=,", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) || value == "" {
		return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
	}
	return value
}

// Plural returns "1 message" or "2 messages".
func Plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// Stamp returns a time in UTC, or an empty text if there is none.
func Stamp(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
