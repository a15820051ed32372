package powertools

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf16"
)

// A form is the way in which a language writes JSON.
type form struct {
	comma, colon string
	number       func(literal string) string
	// escape writes a rune that is neither a quote, a backslash nor one of the control characters
	// with a letter of their own.
	escape func(r rune) string
	// fields returns the indexes of the fields in the order in which they are written.
	fields func(names []text) []int
}

// formOf returns the form of a language.
func formOf(l Language) form {
	switch l {
	case TypeScript:
		return form{",", ":", javaScriptNumber, javaScriptRune, javaScriptFields}
	case Java:
		return form{",", ":", javaNumber, javaRune, inOrder}
	case Python:
	}
	return form{", ", ": ", pythonNumber, pythonRune, pythonFields}
}

func (f *form) write(b *strings.Builder, v value) {
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case number:
		b.WriteString(f.number(string(v)))
	case text:
		f.writeText(b, v)
	case list:
		b.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				b.WriteString(f.comma)
			}
			f.write(b, item)
		}
		b.WriteByte(']')
	case object:
		b.WriteByte('{')
		for n, i := range f.fields(v.names) {
			if n > 0 {
				b.WriteString(f.comma)
			}
			f.writeText(b, v.names[i])
			b.WriteString(f.colon)
			f.write(b, v.values[i])
		}
		b.WriteByte('}')
	}
}

func (f *form) writeText(b *strings.Builder, t text) {
	b.WriteByte('"')
	for _, r := range t {
		if i := slices.Index([]rune("\"\\\b\f\n\r\t"), r); i >= 0 {
			b.WriteByte('\\')
			b.WriteByte(`"\bfnrt`[i])
			continue
		}
		b.WriteString(f.escape(r))
	}
	b.WriteByte('"')
}

// pythonRune is json.dumps with ensure_ascii.
func pythonRune(r rune) string {
	if r >= ' ' && r <= '~' {
		return string(r)
	}
	if high, low := utf16.EncodeRune(r); r > 0xffff {
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// javaScriptRune is JSON.stringify.
func javaScriptRune(r rune) string {
	if r < ' ' || utf16.IsSurrogate(r) {
		return fmt.Sprintf(`\u%04x`, r)
	}
	return string(r)
}

// javaRune is Jackson; a half of a surrogate pair has no form in UTF-8.
func javaRune(r rune) string {
	switch {
	case r < ' ':
		return fmt.Sprintf(`\u%04X`, r)
	case utf16.IsSurrogate(r):
		return "?"
	}
	return string(r)
}

// whole reports whether a number has neither a fraction nor an exponent, and returns it without the
// sign of zero.
func whole(literal string) (string, bool) {
	if literal == "-0" {
		return "0", true
	}
	return literal, !strings.ContainsAny(literal, ".eE")
}

// float returns the nearest number; one that is out of range is infinite.
func float(literal string) float64 {
	x, _ := strconv.ParseFloat(literal, 64) // the syntax was checked
	return x
}

// infinity writes an infinite number as Python and Java do.
func infinity(x float64) string {
	if x < 0 {
		return "-Infinity"
	}
	return "Infinity"
}

// pythonNumber keeps whole numbers of any size, and writes others as repr does.
func pythonNumber(literal string) string {
	if n, ok := whole(literal); ok {
		return n
	}
	x := float(literal)
	size := math.Abs(x)
	switch {
	case math.IsInf(x, 0):
		return infinity(x)
	case size == 0 || size >= 1e-4 && size < 1e16:
		return decimal(x)
	}
	return strconv.FormatFloat(x, 'e', -1, 64)
}

// decimal writes a number without an exponent, with at least one digit after the point.
func decimal(x float64) string {
	s := strconv.FormatFloat(x, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// javaScriptNumber writes every number as a float.
func javaScriptNumber(literal string) string {
	x := float(literal)
	size := math.Abs(x)
	switch {
	case math.IsInf(x, 0):
		return "null"
	case size == 0:
		return "0"
	case size >= 1e-6 && size < 1e21:
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(x, 'e', -1, 64), "e")
	return mantissa + "e" + exponent[:1] + strings.TrimPrefix(exponent[1:], "0")
}

// javaNumber keeps whole numbers, and writes others as Double.toString does.
func javaNumber(literal string) string {
	if n, ok := whole(literal); ok {
		return n
	}
	x := float(literal)
	size := math.Abs(x)
	switch {
	case math.IsInf(x, 0):
		return infinity(x)
	case size == 0 || size >= 1e-3 && size < 1e7:
		return decimal(x)
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(x, 'e', -1, 64), "e")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	n, _ := strconv.Atoi(exponent) // as it was just formatted
	return mantissa + "E" + strconv.Itoa(n)
}

func inOrder(names []text) []int {
	order := make([]int, len(names))
	for i := range order {
		order[i] = i
	}
	return order
}

// pythonFields sorts names by code points, as sort_keys does.
func pythonFields(names []text) []int {
	order := inOrder(names)
	sort.SliceStable(order, func(i, j int) bool { return slices.Compare(names[order[i]], names[order[j]]) < 0 })
	return order
}

// javaScriptFields sorts names without regard to case, by UTF-16. Names that are indexes of arrays
// come first, as in every object of JavaScript, and "__proto__" sets no field there.
func javaScriptFields(names []text) []int {
	lower := make([][]uint16, len(names))
	var order []int
	for i, name := range names {
		lower[i] = encode(toLower(name))
		if string(name) != "__proto__" {
			order = append(order, i)
		}
	}
	sort.SliceStable(order, func(i, j int) bool {
		a, isA := index(names[order[i]])
		b, isB := index(names[order[j]])
		if isA || isB {
			return isA && (!isB || a < b)
		}
		return slices.Compare(lower[order[i]], lower[order[j]]) < 0
	})
	return order
}

// index returns the number that a name is, if it is an index of an array.
func index(name text) (uint64, bool) {
	n, err := strconv.ParseUint(string(name), 10, 32)
	return n, err == nil && n < math.MaxUint32 && strconv.FormatUint(n, 10) == string(name)
}

// encode returns a text in UTF-16. Halves of surrogate pairs stay.
func encode(t text) []uint16 {
	var out []uint16
	for _, r := range t {
		if r > 0xffff {
			high, low := utf16.EncodeRune(r)
			out = append(out, uint16(high), uint16(low)) //nolint:gosec // halves have 16 bits
			continue
		}
		out = append(out, uint16(r)) //nolint:gosec // of 16 bits, see above
	}
	return out
}
