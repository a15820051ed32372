package wire

import (
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dunglas/httpsfv"

	"github.com/effectively-once/once/internal/record"
)

// largestInteger is the largest integer of a structured field; larger numbers are written as
// strings.
const largestInteger = 999_999_999_999_999

const dependsRule = "must be a structured-field dictionary (RFC 9651) of sources and numbers from 1 on"

// ParseDependsOn parses dependencies in the form of a structured-field dictionary, from an
// attribute or from the lines of a header: a=3, b=7. Keys of dictionaries are lower case; a byte of
// a source that a key can't contain is written as an asterisk and two lower-case hexadecimal digits
// (Source 1 is *53ource*201). A number above 999999999999999 is written as a string. The error is a
// [*record.InvalidError]. If there are no dependencies, the result is nil.
func ParseDependsOn(lines []string) (map[string]uint64, error) {
	dictionary, err := httpsfv.UnmarshalDictionary(lines)
	if err != nil {
		return nil, &record.InvalidError{Field: "depends-on", Rule: dependsRule}
	}
	var out map[string]uint64
	for _, key := range dictionary.Names() {
		member, _ := dictionary.Get(key)
		source, ok := unescapeKey(key)
		n, isNumber := dependency(member)
		if !ok || !isNumber {
			return nil, &record.InvalidError{Field: "depends-on", Rule: dependsRule}
		}
		if out == nil {
			out = map[string]uint64{}
		}
		out[source] = n
	}
	return out, nil
}

// dependency returns a number. Parameters are ignored, as the standard requires.
func dependency(member httpsfv.Member) (uint64, bool) {
	item, _ := member.(httpsfv.Item)
	switch v := item.Value.(type) {
	case int64:
		return uint64(v), v > 0 //nolint:gosec // positive where it counts
	case string:
		n, ok := parseNumber(v)
		return n, ok && n > 0
	}
	return 0, false
}

// formatDependsOn is the inverse of ParseDependsOn, sorted by source. It leaves out the number 0,
// which is no dependency, and sources without a name.
func formatDependsOn(depends map[string]uint64) string {
	var b strings.Builder
	for _, source := range slices.Sorted(maps.Keys(depends)) {
		n := depends[source]
		if n == 0 || source == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(escapeKey(source))
		number := strconv.FormatUint(n, 10)
		if n > largestInteger {
			number = `"` + number + `"`
		}
		b.WriteString("=" + number)
	}
	return b.String()
}

func escapeKey(source string) string {
	var b strings.Builder
	for i := range len(source) {
		c := source[i]
		letter := c >= 'a' && c <= 'z'
		inside := i > 0 && (c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.')
		if letter || inside {
			b.WriteByte(c)
			continue
		}
		b.WriteString("*" + hex.EncodeToString([]byte{c}))
	}
	return b.String()
}

func unescapeKey(key string) (string, bool) {
	first, rest, escaped := strings.Cut(key, "*")
	var b strings.Builder
	b.WriteString(first)
	for escaped {
		var part string
		part, rest, escaped = strings.Cut(rest, "*")
		if len(part) < 2 {
			return "", false
		}
		c, err := hex.DecodeString(part[:2])
		if err != nil {
			return "", false
		}
		b.Write(c)
		b.WriteString(part[2:])
	}
	return b.String(), true
}

const parentsRule = "must be a list of at most 100 numbers from 1 on, such as 17, 23"

// ParseVia parses the names of systems, separated by commas, from a header: eu, us. The error is a
// [*record.InvalidError].
func ParseVia(text string) ([]string, error) {
	via := strings.SplitN(text, ",", record.MaxVia+1)
	for i := range via {
		via[i] = strings.Trim(via[i], " \t")
	}
	return via, record.ValidVia(via)
}

// TimeRule describes the form of a hybrid time.
const TimeRule = "must be a hybrid time such as 2026-01-31T12:00:00.000Z-0003"

// ParseParents parses numbers of entries, separated by commas, from an attribute or a header: 17,
// 23. The error is a [*record.InvalidError].
func ParseParents(text string) ([]uint64, error) {
	parts := strings.SplitN(text, ",", record.MaxParents+1)
	parents := make([]uint64, len(parts))
	for i, part := range parts {
		n, ok := parseNumber(strings.Trim(part, " \t"))
		if !ok || n == 0 || i == record.MaxParents {
			return nil, &record.InvalidError{Field: "parents", Rule: parentsRule}
		}
		parents[i] = n
	}
	return parents, nil
}
