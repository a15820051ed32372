package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// Duration is a time.Duration that may be written with days: 15d, 1d12h, 30s, 250ms.
type Duration time.Duration

const day = 24 * time.Hour

// Forever is written as "forever", where a setting takes it.
const Forever = Duration(record.Forever)

var errDuration = errors.New(`must be a duration such as 30s, 24h or 15d`)

// ParseDuration parses Go's format, optionally after whole days: 15d, 1d12h. Negative durations are
// errors.
func ParseDuration(text string) (Duration, error) {
	rest, sum := text, time.Duration(0)
	if days, after, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 32)
		if err != nil || n > uint64(math.MaxInt64/day) {
			return 0, errDuration
		}
		rest, sum = after, time.Duration(n)*day
		if rest == "" {
			return Duration(sum), nil
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || strings.HasPrefix(rest, "+") || strings.HasPrefix(rest, "-") || sum > math.MaxInt64-d {
		return 0, errDuration
	}
	return Duration(sum + d), nil
}

// Std returns the value as a time.Duration.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String returns the duration in the format of ParseDuration: 15d, 1d12h, 30s.
func (d Duration) String() string {
	if d == Forever {
		return "forever"
	}
	rest := d.Std()
	if rest < day {
		return short(rest)
	}
	text := strconv.FormatInt(int64(rest/day), 10) + "d"
	if rest %= day; rest > 0 {
		text += short(rest)
	}
	return text
}

// short removes the trailing zero units of the standard library's format: 24h0m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// MarshalText returns the same text as String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Size is a number of bytes, written as 8MB (8,000,000), 8MiB (8,388,608) or a plain number.
type Size int64

// unit is a suffix of sizes; longer suffixes are listed first.
type unit struct {
	suffix string
	bytes  int64
}

func units() []unit {
	return []unit{
		{"KiB", 1 << 10},
		{"MiB", 1 << 20},
		{"GiB", 1 << 30},
		{"KB", 1e3},
		{"MB", 1e6},
		{"GB", 1e9},
		{"B", 1},
	}
}

var errSize = errors.New("must be a size such as 512KB, 8MB or 8MiB")

// ParseSize parses a whole number with one of the suffixes B, KB, MB, GB (powers of 1000), KiB,
// MiB, GiB (powers of 1024), or without one.
func ParseSize(text string) (Size, error) {
	factor := int64(1)
	for _, u := range units() {
		if rest, ok := strings.CutSuffix(text, u.suffix); ok {
			text, factor = strings.TrimSuffix(rest, " "), u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || int64(n) > math.MaxInt64/factor {
		return 0, errSize
	}
	return Size(int64(n) * factor), nil
}

// String returns the size with the largest suffix that divides it.
func (s Size) String() string {
	best := unit{"B", 1}
	for _, u := range units() {
		if s != 0 && int64(s)%u.bytes == 0 && u.bytes > best.bytes {
			best = u
		}
	}
	return strconv.FormatInt(int64(s)/best.bytes, 10) + best.suffix
}

// MarshalText returns the same text as String.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
