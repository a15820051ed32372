package powertools

import (
	"slices"
	"unicode"
	"unicode/utf16"
)

// toLower is toLowerCase of JavaScript, with the two rules of Unicode that need more than a table.
// İ becomes two code points, and a sigma at the end of a word another letter.
func toLower(t text) text {
	out := make(text, 0, len(t))
	for i, r := range t {
		switch {
		case r == 'İ':
			out = append(out, 'i', '\u0307')
		case r == 'Σ' && endsWord(t, i):
			out = append(out, 'ς')
		case utf16.IsSurrogate(r):
			out = append(out, r)
		default:
			out = append(out, unicode.ToLower(r))
		}
	}
	return out
}

// endsWord reports whether the letter before place i is cased, and the one after it is not. Marks
// and signs within words do not count.
func endsWord(t text, i int) bool {
	before := slices.Clone(t[:i])
	slices.Reverse(before)
	return startsCased(before) && !startsCased(t[i+1:])
}

func startsCased(t text) bool {
	for _, r := range t {
		if !ignorable(r) {
			return unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r)
		}
	}
	return false
}

// ignorable reports whether a code point is case-ignorable.
func ignorable(r rune) bool {
	return unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) || slices.Contains([]rune{'\'', '.', ':', '·', '’', '‘', '․', '‧', '︓', '﹒', '﹕', '＇', '．', '：'}, r)
}
