package api

import (
	"errors"
	"net/http"

	"github.com/effectively-once/once/internal/front/idempotency"
	"github.com/effectively-once/once/internal/front/problem"
)

// idempotencyKey returns the value of the Idempotency-Key header, or "" if there is none.
func idempotencyKey(h http.Header) (string, error) {
	key, err := idempotency.Key(h)
	if malformed, ok := errors.AsType[*idempotency.MalformedError](err); ok {
		return "", problem.New(problem.MalformedKey, malformed.Detail)
	}
	return key, err
}
