package api

import (
	"errors"
	"net/http"

	"github.com/effectively-once/once/internal/idempotency"
	"github.com/effectively-once/once/internal/problem"
)

// idempotencyKey gives the value of the Idempotency-Key header, empty where there is none.
func idempotencyKey(h http.Header) (string, error) {
	key, err := idempotency.Key(h)
	if malformed, ok := errors.AsType[*idempotency.MalformedError](err); ok {
		return "", problem.New(problem.MalformedKey, malformed.Detail)
	}
	return key, err
}
