package api

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/dunglas/httpsfv"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/problem"
)

// idempotencyKey gives the value of the Idempotency-Key header: a structured-field string ("8e03…", in quotes), or the bare text that many clients
// send. Both spell the same key. It is empty where there is no such header.
func idempotencyKey(h http.Header) (string, error) {
	values := h["Idempotency-Key"]
	switch len(values) {
	case 0:
		return "", nil
	case 1:
		return parseKey(values[0])
	default:
		return "", problem.New(problem.MalformedKey, "Idempotency-Key is there more than once.")
	}
}

func parseKey(value string) (string, error) {
	key, err := value, error(nil)
	if strings.HasPrefix(value, `"`) {
		key, err = quotedKey(value)
	} else if !bare(value) {
		err = problem.New(problem.MalformedKey, "An Idempotency-Key with spaces, commas, semicolons, quotes or backslashes has to be sent as a string in quotes.")
	}
	switch {
	case err != nil:
		return "", err
	case key == "":
		return "", problem.New(problem.MalformedKey, "Idempotency-Key is empty.")
	case len(key) > dedup.MaxName:
		return "", problem.New(problem.MalformedKey, fmt.Sprintf("Idempotency-Key is longer than %d bytes.", dedup.MaxName))
	}
	return key, nil
}

func quotedKey(value string) (string, error) {
	item, err := httpsfv.UnmarshalItem([]string{value})
	if err != nil {
		return "", problem.New(problem.MalformedKey, "Idempotency-Key is not a structured-field string (RFC 9651).")
	}
	// Parameters that nobody defined are ignored, as the RFC asks.
	key, _ := item.Value.(string)
	return key, nil
}

// bare tells whether a value is visible ASCII without what separates values: a comma would be there where a proxy folded two headers into one.
func bare(value string) bool {
	for i := range len(value) {
		c := value[i]
		if c <= ' ' || c > '~' || c == '"' || c == ',' || c == ';' || c == '\\' {
			return false
		}
	}
	return true
}
