// Package idempotency reads the Idempotency-Key header field.
package idempotency

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/dunglas/httpsfv"
)

// MaxKey is the longest key, in bytes.
const MaxKey = 256

// A MalformedError says, for the sender, what is wrong with a key.
type MalformedError struct{ Detail string }

func (e *MalformedError) Error() string { return "malformed idempotency key: " + e.Detail }

// Key gives the value of the Idempotency-Key field: a structured-field string (RFC 9651), or the bare text that many clients send. Both spell the same key.
// It is empty where there is no such field; an error is a [*MalformedError].
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
		key, _ = item.Value.(string) // parameters that nobody defined are ignored, as the RFC asks
	} else if !bare(value) {
		return "", &MalformedError{"An Idempotency-Key with spaces, commas, semicolons, quotes or backslashes has to be sent as a string in quotes."}
	}
	switch {
	case key == "":
		return "", &MalformedError{"Idempotency-Key is empty."}
	case len(key) > MaxKey:
		return "", &MalformedError{fmt.Sprintf("Idempotency-Key is longer than %d bytes.", MaxKey)}
	}
	return key, nil
}

// bare tells whether a value is visible ASCII without what separates values: a comma would be there where a proxy folded two fields into one.
func bare(value string) bool {
	for i := range len(value) {
		c := value[i]
		if c <= ' ' || c > '~' || c == '"' || c == ',' || c == ';' || c == '\\' {
			return false
		}
	}
	return true
}
