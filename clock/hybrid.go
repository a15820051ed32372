package clock

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Hybrid is a hybrid logical clock: the highest wall clock time that is known, in milliseconds
// since 1970 (48 bits), and a counter for events within it (16 bits). Later events have higher
// values, so two clocks compare with < and ==. The zero value is before every event.
//
// It stays within the largest difference of the wall clocks that take part: its time is always the
// wall clock time of some process. A process that stores its clock and continues from it after a
// restart never goes back, even if its wall clock did. More than 65,535 events within one
// millisecond move the time ahead by one.
//
// Source: S. Kulkarni, M. Demirbas, D. Madappa, B. Avva, M. Leone, Logical Physical Clocks and
// Consistent Snapshots in Globally Distributed Databases, 2014, figure 5 and section 6.2.
type Hybrid uint64

const counterBits = 16

// The last clock is the end of the year 9999, so that the text form always has four digits of year.
const (
	lastWall   = 253_402_300_799_999
	lastHybrid = lastWall<<counterBits | math.MaxUint16
)

// HybridAt returns the clock of a wall clock time without events, rounded down to milliseconds.
// Times before 1970 return 0, times after the year 9999 the last millisecond of that year.
func HybridAt(t time.Time) Hybrid {
	return Hybrid(min(max(t.UnixMilli(), 0), lastWall)) << counterBits
}

// Time returns the wall clock part, in UTC.
func (h Hybrid) Time() time.Time { return time.UnixMilli(int64(h >> counterBits)).UTC() }

// Counter returns the number of the event within the wall clock part.
func (h Hybrid) Counter() uint16 { return uint16(h) } //nolint:gosec // the low bits

// Tick returns the clock after an event of its own process at a wall clock time. The result is
// higher than h. It returns h and ErrOverflow if there is no higher value.
func (h Hybrid) Tick(now time.Time) (Hybrid, error) {
	if at := HybridAt(now); at > h {
		return at, nil
	}
	if h >= lastHybrid {
		return h, ErrOverflow
	}
	return h + 1, nil
}

// An AheadError says that a clock is too far ahead of the wall clock.
type AheadError struct {
	Clock Hybrid
	Now   time.Time
	Limit time.Duration
}

func (e *AheadError) Error() string {
	return fmt.Sprintf("clock %s is more than %s ahead of the local time %s", e.Clock, e.Limit, e.Now.UTC().Format(layout))
}

// Receive returns the clock after the process received a message with the clock sent, at a wall
// clock time. The result is higher than both. If sent is ahead of now by more than limit, Receive
// returns h and an [*AheadError]: one process with a wrong wall clock would move all others ahead
// with it. If h itself is ahead, because the local wall clock went back, that is no error. Receive
// returns h and ErrOverflow if there is no higher value.
func (h Hybrid) Receive(now time.Time, sent Hybrid, limit time.Duration) (Hybrid, error) {
	if sent.Time().After(now.Add(limit)) {
		return h, &AheadError{Clock: sent, Now: now, Limit: limit}
	}
	next, err := max(h, sent).Tick(now)
	if err != nil {
		return h, err
	}
	return next, nil
}

// layout is RFC 3339 with milliseconds, in UTC.
const layout = "2006-01-02T15:04:05.000Z"

// String returns the text form, such as 2026-01-31T12:00:00.000Z-0003: the time in UTC and the
// counter as four hexadecimal digits. Texts sort as the clocks do.
func (h Hybrid) String() string {
	text, _ := h.AppendText(nil)
	return string(text)
}

// AppendText appends the text form. It never fails.
func (h Hybrid) AppendText(b []byte) ([]byte, error) {
	year, month, day := h.Time().Date()
	ms := uint(h >> counterBits % (24 * 60 * 60 * 1000))
	rest := [...]byte{'-', 'm', 'm', '-', 'd', 'd', 'T', 'h', 'h', ':', 'm', 'm', ':', 's', 's', '.', '0', '0', '0', 'Z', '-', 'x', 'x', 'x', 'x'}
	setDigits(rest[1:3], uint(month))
	setDigits(rest[4:6], uint(day))
	setDigits(rest[7:9], ms/3_600_000)
	setDigits(rest[10:12], ms/60_000%60)
	setDigits(rest[13:15], ms/1000%60)
	setDigits(rest[16:19], ms%1000)
	const hex = "0123456789abcdef"
	c := h.Counter()
	rest[21], rest[22], rest[23], rest[24] = hex[c>>12], hex[c>>8&15], hex[c>>4&15], hex[c&15]
	return append(strconv.AppendInt(b, int64(year), 10), rest[:]...), nil // a year has at least four digits
}

// setDigits sets b to a decimal number with leading zeros.
func setDigits(b []byte, n uint) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i], n = byte('0'+n%10), n/10
	}
}

// MarshalText returns the text form. It never fails.
func (h Hybrid) MarshalText() ([]byte, error) { return h.AppendText(nil) }

// UnmarshalText parses the text form. It accepts only what MarshalText returns; otherwise the error
// wraps ErrFormat.
func (h *Hybrid) UnmarshalText(text []byte) error {
	parsed, err := ParseHybrid(string(text))
	if err == nil {
		*h = parsed
	}
	return err
}

// ParseHybrid parses the text form of a hybrid clock. It accepts only what String returns;
// otherwise the error wraps ErrFormat.
func ParseHybrid(text string) (Hybrid, error) {
	if i := len(text) - len("-0000"); i > 0 {
		t, err := time.Parse(layout, text[:i])
		n, numberErr := strconv.ParseUint(text[i+1:], 16, counterBits)
		h := HybridAt(t) | Hybrid(n)
		var memory [32]byte
		if again, _ := h.AppendText(memory[:0]); err == nil && numberErr == nil && string(again) == text {
			return h, nil
		}
	}
	return 0, fmt.Errorf("hybrid clock %q: %w", text, ErrFormat)
}

// AppendBinary appends the binary form: eight bytes, big-endian, which sort as the clocks do. It
// never fails.
func (h Hybrid) AppendBinary(b []byte) ([]byte, error) {
	return binary.BigEndian.AppendUint64(b, uint64(h)), nil
}

// MarshalBinary returns the binary form. It never fails.
func (h Hybrid) MarshalBinary() ([]byte, error) { return h.AppendBinary(nil) }

// UnmarshalBinary parses the binary form. The error wraps ErrFormat if data does not have eight
// bytes, or is a time after the year 9999.
func (h *Hybrid) UnmarshalBinary(data []byte) error {
	if len(data) != 8 {
		return fmt.Errorf("hybrid clock of %d bytes: %w", len(data), ErrFormat)
	}
	parsed := Hybrid(binary.BigEndian.Uint64(data))
	if parsed > lastHybrid {
		return fmt.Errorf("hybrid clock after the year 9999: %w", ErrFormat)
	}
	*h = parsed
	return nil
}
