package access

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/effectively-once/once/internal/front/problem"
)

// A Caller is the authenticated sender of a request.
type Caller struct {
	// Principal scopes identities: the same key of two principals names two messages.
	Principal string
	// All allows every stream; otherwise only Streams are allowed.
	All     bool
	Streams []string

	issuer  *issuer   // of the token; nil for a key
	expires time.Time // the token
}

// may reports whether the caller may use a stream.
func (c Caller) may(stream string) bool { return c.All || slices.Contains(c.Streams, stream) }

type callerKey struct{}

// A known caller is in the context of a request.
type known struct {
	Caller
	denied func(reason string) // counts the request as refused
}

func with(r *http.Request, c Caller, denied func(reason string)) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, known{c, denied}))
}

// of returns the caller of a request. If nothing authenticates callers, that is nobody, who may use
// every stream.
func of(r *http.Request) Caller {
	if c, ok := r.Context().Value(callerKey{}).(known); ok {
		return c.Caller
	}
	return Caller{All: true}
}

// Principal returns the principal of a request, or "" if callers are not authenticated. The kinds
// have prefixes, as in package apigw, so that one can't pass for another:
//
//	key:NAME          the principal of a key
//	jwt:ISSUER#VALUE  the claim of a token
func Principal(r *http.Request) (string, error) { return of(r).Principal, nil }

// Allow returns a problem if the caller of a request may not use a stream. It is the same for a
// stream that does not exist.
func Allow(r *http.Request, stream string) error {
	if of(r).may(stream) {
		return nil
	}
	if c, ok := r.Context().Value(callerKey{}).(known); ok {
		c.denied(DeniedForbidden)
	}
	return problem.New(problem.Forbidden, "This key or token is not for this stream.")
}

// Allowed returns those of the streams that the caller of a request may use.
func Allowed(r *http.Request, streams []string) []string {
	c := of(r)
	return slices.DeleteFunc(slices.Clone(streams), func(name string) bool { return !c.may(name) })
}

// maxPrincipal is below the limit on names in package record.
const maxPrincipal = 200

// tokenPrincipal returns the principal of a token. A long one is replaced by its hash.
func tokenPrincipal(issuer, value string) string {
	text := "jwt:" + issuer + "#" + value
	if len(text) <= maxPrincipal && !strings.ContainsFunc(text, func(r rune) bool { return r == unicode.ReplacementChar || unicode.IsControl(r) }) {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "jwt:sha256:" + hex.EncodeToString(sum[:])
}
