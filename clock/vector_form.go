package clock

import (
	"encoding/binary"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// String returns the text form, such as "a=3,b=7": members in order, names escaped as in a URL
// query. The zero value is the empty string.
func (v Vector) String() string {
	text, _ := v.AppendText(nil)
	return string(text)
}

// AppendText appends the text form. It never fails.
func (v Vector) AppendText(b []byte) ([]byte, error) {
	for i, e := range v.entries {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, url.QueryEscape(e.member)...)
		b = strconv.AppendUint(append(b, '='), e.n, 10)
	}
	return b, nil
}

// MarshalText returns the text form. It never fails.
func (v Vector) MarshalText() ([]byte, error) { return v.AppendText(nil) }

// UnmarshalText parses the text form. It accepts only what MarshalText returns, so equal vectors
// have equal texts; otherwise the error wraps ErrFormat.
func (v *Vector) UnmarshalText(text []byte) error {
	parsed, err := ParseVector(string(text))
	if err == nil {
		*v = parsed
	}
	return err
}

// ParseVector parses the text form of a vector. It accepts only what String returns; otherwise the
// error wraps ErrFormat.
func ParseVector(text string) (Vector, error) {
	if text == "" {
		return Vector{}, nil
	}
	parts := strings.Count(text, ",") + 1
	if parts > MaxMembers {
		return Vector{}, fmt.Errorf("vector of %d members: %w", parts, ErrFormat)
	}
	v := Vector{make([]entry, 0, parts)}
	for part := range strings.SplitSeq(text, ",") {
		name, number, _ := strings.Cut(part, "=")
		member, err := url.QueryUnescape(name)
		n, numberErr := strconv.ParseUint(number, 10, 64)
		canonical := err == nil && numberErr == nil && url.QueryEscape(member) == name && strconv.FormatUint(n, 10) == number
		if !canonical || !v.appends(member, n) {
			return Vector{}, fmt.Errorf("vector entry %q: %w", part, ErrFormat)
		}
	}
	return v, nil
}

// appends appends an entry if the vector stays canonical, and reports whether it did.
func (v *Vector) appends(member string, n uint64) bool {
	last := len(v.entries) - 1
	if checkName(member) != nil || n == 0 || last >= 0 && v.entries[last].member >= member {
		return false
	}
	v.entries = append(v.entries, entry{member, n})
	return true
}

// AppendBinary appends the binary form: the count of members, then for each member how many bytes
// its name shares with the name before it, the length of the rest, the rest, and the number. All
// numbers are unsigned varints. It never fails.
func (v Vector) AppendBinary(b []byte) ([]byte, error) {
	b = binary.AppendUvarint(b, uint64(len(v.entries)))
	before := ""
	for _, e := range v.entries {
		shared := 0
		for shared < min(len(before), len(e.member)) && before[shared] == e.member[shared] {
			shared++
		}
		b = binary.AppendUvarint(b, uint64(shared))
		rest := e.member[shared:]
		b = binary.AppendUvarint(b, uint64(len(rest)))
		b = append(b, rest...)
		b = binary.AppendUvarint(b, e.n)
		before = e.member
	}
	return b, nil
}

// MarshalBinary returns the binary form. It never fails.
func (v Vector) MarshalBinary() ([]byte, error) { return v.AppendBinary(nil) }

// UnmarshalBinary parses the binary form. It accepts only what MarshalBinary returns, so equal
// vectors have equal bytes; otherwise the error wraps ErrFormat.
func (v *Vector) UnmarshalBinary(data []byte) error {
	r := reader{data: data}
	count := r.uvarint()
	if count > MaxMembers || count > uint64(len(data)) {
		return fmt.Errorf("vector of %d members: %w", count, ErrFormat)
	}
	parsed, before := Vector{make([]entry, 0, count)}, ""
	for range count {
		shared, rest := r.uvarint(), r.uvarint()
		if shared > uint64(len(before)) || rest > MaxName {
			return fmt.Errorf("name of a member: %w", ErrFormat)
		}
		member := before[:shared] + string(r.take(int(rest)))
		if n := r.uvarint(); r.bad || !parsed.appends(member, n) {
			return fmt.Errorf("member %q: %w", member, ErrFormat)
		}
		before = member
	}
	canonical, _ := parsed.AppendBinary(make([]byte, 0, len(data)))
	if r.bad || !slices.Equal(canonical, data) {
		return fmt.Errorf("%d bytes: %w", len(data), ErrFormat)
	}
	*v = parsed
	return nil
}

// A reader takes parts from the front of a binary form.
type reader struct {
	data []byte
	bad  bool
}

func (r *reader) uvarint() uint64 {
	n, size := binary.Uvarint(r.data)
	if size <= 0 {
		r.bad = true
		return 0
	}
	r.data = r.data[size:]
	return n
}

func (r *reader) take(n int) []byte {
	if n > len(r.data) {
		r.bad = true
		return nil
	}
	part := r.data[:n]
	r.data = r.data[n:]
	return part
}
