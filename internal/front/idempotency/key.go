// Package idempotency reads the Idempotency-Key header field.
package idempotency

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/dunglas/httpsfv"
)

// maxKey is the longest key, in bytes.
const maxKey = 256

// A MalformedError reports why a key is malformed, in words for the sender.
type MalformedError struct{ Detail string }

func (e *MalformedError) Error() string { return "malformed idempotency key: " + e.Detail }

// Key returns the value of the Idempotency-Key field: a structured-field string (RFC 9651), or the
// bare text that many clients send. Both spell the same key. It returns "" if there is no such
// field; an error is a [*MalformedError].
func Key(h http.Header) (string, error) {
	values := h["Idempotency-Key"]
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		return parse(values[0])
	default:
		return "", &MalformedError{"Idempotency-Key is there more than once."}
	}
}

func parse(value string) (string, error) {
	key := value
	if strings.HasPrefix(value, `"`) {
		item, err := httpsfv.UnmarshalItem([]string{value})
		if err != nil {
			return "", &MalformedError{"Idempotency-Key is not a structured-field string (RFC 9651)."}
		}
		key, _ = item.Value.(string) // undefined parameters are ignored, as the RFC asks
	} else if !bare(value) {
		return "", &MalformedError{"An Idempotency-Key with spaces, commas, semicolons, quotes or backslashes has to be sent as a string in quotes."}
	}
	switch {
	case key == "":
		return "", &MalformedError{"Idempotency-Key is empty."}
	case len(key) > maxKey:
		return "", &MalformedError{fmt.Sprintf("Idempotency-Key is longer than %d bytes.", maxKey)}
	}
	return key, nil
}

// bare reports whether a value is visible ASCII without separators: if a proxy folded two fields
// into one, there is a comma.
func bare(value string) bool {
	for i := range len(value) {
		c := value[i]
		if c <= ' ' || c > '~' || c == '"' || c == ',' || c == ';' || c == '\\' {
			return false
		}
	}
	return true
}
