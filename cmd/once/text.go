package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// safe escapes the characters of text with which a sender could change what a terminal shows:
// control characters (C0 and C1), bidirectional overrides and other invisible format characters,
// line and paragraph separators, and bytes that are not UTF-8. Spaces stay.
func safe(text string) string { return escape(text, "") }

// safeLines is safe for text of several lines: line feeds and tabs stay.
func safeLines(text string) string { return escape(text, "\n\t") }

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

// maxCell limits one cell of a table, in characters.
const maxCell = 200

// cell is text for one cell of a table: safe, and cut.
func cell(text string) string {
	runes := 0
	for i := range text {
		if runes == maxCell {
			return safe(text[:i]) + "…"
		}
		runes++
	}
	return safe(text)
}
