package log

import (
	"strconv"
	"strings"

	"github.com/effectively-once/once/internal/record"
)

// An Offset is a position in a log: after the entry with that number, or before all entries if it
// is 0. Offsets of different lives of a group differ in the incarnation. The zero value is the
// beginning of the log as far as it is kept.
type Offset struct {
	Incarnation uint64
	Number      uint64
}

// The digits of both parts. A number of 16 digits is not reached, and Unix milliseconds have 13
// digits until the year 2286.
const (
	incarnationDigits = 13
	numberDigits      = 16
)

// String returns incarnation_number with leading zeros. Offsets sort as their texts do.
func (o Offset) String() string { return string(o.Append(nil)) }

// Append appends the text of String.
func (o Offset) Append(b []byte) []byte {
	b = append(appendPadded(b, o.Incarnation, incarnationDigits), '_')
	return appendPadded(b, o.Number, numberDigits)
}

// appendPadded appends a decimal number with leading zeros up to a width of at most 20 digits.
func appendPadded(b []byte, n uint64, width int) []byte {
	digits := 1
	for x := n; x >= 10; x /= 10 {
		digits++
	}
	if digits < width {
		b = append(b, "00000000000000000000"[:width-digits]...)
	}
	return strconv.AppendUint(b, n, 10)
}

// ParseOffset parses what String returns, and the empty text as the zero value. It returns a
// [*record.InvalidError].
func ParseOffset(text string) (Offset, error) {
	if text == "" {
		return Offset{}, nil
	}
	a, b, ok := strings.Cut(text, "_")
	incarnation, err1 := strconv.ParseUint(a, 10, 64)
	number, err2 := strconv.ParseUint(b, 10, 64)
	o := Offset{Incarnation: incarnation, Number: number}
	if !ok || err1 != nil || err2 != nil || o.String() != text {
		return Offset{}, &record.InvalidError{Field: "offset", Rule: "must be one that a log returned"}
	}
	return o, nil
}
