package once

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/effectively-once/once/internal/lease"
)

// A MissingKey says what becomes of a request that should have an Idempotency-Key and has none.
type MissingKey uint8

// What becomes of requests without a key.
const (
	// RefuseMissingKey answers 400.
	RefuseMissingKey MissingKey = iota
	// AllowMissingKey lets the request through, unprotected.
	AllowMissingKey
)

// A MiddlewareConfig sets how [Middleware] works. Zero fields take the defaults in their comments.
type MiddlewareConfig struct {
	// Name keeps services apart that share a store and their callers' keys. May be empty.
	Name string
	// Methods are those that a key protects; requests of others pass through, with a key or without. Defaults to POST and PATCH.
	Methods []string
	// Missing defaults to RefuseMissingKey.
	Missing MissingKey
	// Principal gives who sends a request, as an authentication before has found out, so that nobody is answered with another's reply. Without it all
	// callers share one space of keys.
	Principal func(*http.Request) string
	// MaxRequest is the largest body of a request, in bytes. Defaults to 1 MiB.
	MaxRequest int64
	// MaxReply is the largest reply, in bytes of headers and body. Defaults to 256 KiB.
	MaxReply int
	// Remember tells by its status whether a reply is kept. Defaults to all below 500, but 408, 425 and 429, which ask to come again.
	Remember func(status int) bool
	// Wait is how long a request waits for another one with its key that runs, before it is answered 409. Defaults to 0: it does not.
	Wait time.Duration
	// Retention is how long a reply is kept. Defaults to 24 hours.
	Retention time.Duration
	// Lease and Heartbeat are as in [GuardConfig].
	Lease     time.Duration
	Heartbeat time.Duration
	// Log is told of what goes wrong at the store. Defaults to discarding.
	Log *slog.Logger
}

func (c MiddlewareConfig) withDefaults() MiddlewareConfig {
	if c.Methods == nil {
		c.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	if c.Principal == nil {
		c.Principal = func(*http.Request) string { return "" }
	}
	if c.MaxRequest <= 0 {
		c.MaxRequest = 1 << 20
	}
	if c.MaxReply <= 0 {
		c.MaxReply = lease.DefaultMaxReply
	}
	if c.Remember == nil {
		c.Remember = rememberable
	}
	if c.Retention <= 0 {
		c.Retention = 24 * time.Hour
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func rememberable(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status < http.StatusInternalServerError
}

// Middleware runs a handler effectively once for each Idempotency-Key, under a lease with a heartbeat as [Leased] does, and answers repeated requests with the
// first one's status, headers and body, and Idempotent-Replayed: true.
//
//	no key                     400, or through, as configured; methods that are not protected pass through
//	another request, one key   422: method, path, query and body must be the same
//	error: 5xx, 408, 425, 429  answered, not kept: the next request runs
//	any other status           kept, refusals included
//	panic                      released; the panic passes through, and the next request runs
//	crash before the handler   409 until the lease has run out, then the next request runs
//	crash after the handler    409 until the lease has run out, then the next request runs it again
//	two at once                the second waits, as configured, for the first one's answer; else 409 with Retry-After
//	a late attempt             its context ends; it is answered with the reply of the one that took over, or 409
//	the store is away          503 with Retry-After: no request runs unprotected
//	a reply over MaxReply      500, kept: the handler has run, and must not run again
//
// Replayed are the headers that the handler set, but for Date, Set-Cookie and those of one connection (RFC 9110, 7.6.1): a cookie is a secret that belongs to one
// answer, and not into a store. What outer middleware sets, it sets again.
//
// The handler's context does not end when the client goes away, so that the retry finds an answer; its deadline stays. A handler that returns without having
// written anything after its context has ended has not answered: that is 503, and not kept. Replies are held in memory until they are kept; Flush, Hijack,
// trailers and informational answers are not supported. The path is the one that the handler sees: put http.StripPrefix inside, not outside.
func Middleware(t *Tokens, c MiddlewareConfig) func(http.Handler) http.Handler {
	c = c.withDefaults()
	guard := lease.New(t.store, lease.Config{
		Retention: c.Retention, Lease: c.Lease, Heartbeat: c.Heartbeat, Log: c.Log,
		MaxReply: c.MaxReply + 1024, // the recorder keeps to the limit; what is answered instead must fit
	})
	return func(next http.Handler) http.Handler {
		return &keyed{MiddlewareConfig: c, guard: guard, next: next}
	}
}
