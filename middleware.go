package once

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/effectively-once/once/internal/dedup/lease"
)

// A MissingKey says how a request without an Idempotency-Key is handled, if its method requires
// one.
type MissingKey uint8

// The ways to handle requests without a key.
const (
	// RefuseMissingKey answers 400.
	RefuseMissingKey MissingKey = iota
	// AllowMissingKey lets the request through, unprotected.
	AllowMissingKey
)

// A MiddlewareConfig configures [Middleware]. Zero fields take the defaults in their comments.
type MiddlewareConfig struct {
	// Name separates services that share a store and whose callers may use the same keys. May be
	// empty.
	Name string
	// Methods are the protected methods; requests with others pass through, with a key or without.
	// Defaults to POST and PATCH.
	Methods []string
	// Missing defaults to RefuseMissingKey.
	Missing MissingKey
	// Key returns the key of a request with its body: for example a field of the body, or a key of
	// another library. The text of an error is sent to the client with a 400; an empty
	// key is a missing one. It must be the same for each retry. Defaults to the Idempotency-Key.
	Key func(r *http.Request, body []byte) (string, error)
	// Principal returns the authenticated sender of a request, so that no caller receives another
	// one's reply. Without it all callers share one space of keys.
	Principal func(*http.Request) string
	// MaxRequest is the largest body of a request, in bytes. Defaults to 1 MiB.
	MaxRequest int64
	// MaxReply is the largest reply, in bytes of headers and body. Defaults to 256 KiB.
	MaxReply int
	// Remember reports whether a reply with a status is stored. Defaults to all below 500, except
	// 408, 425 and 429, which ask the client to retry.
	Remember func(status int) bool
	// Wait is how long a request waits while another one with its key is running, before it
	// receives a 409. Defaults to 5 seconds. If it is negative, the request does not wait.
	Wait time.Duration
	// ProblemBase begins the type of each problem that the middleware answers with (RFC 9457), for
	// example "https://shop.example/problems#". The name of the problem follows, such as key-reuse.
	// Defaults to the page of once that explains them.
	ProblemBase string
	// Retention is how long a reply is kept. Defaults to 24 hours.
	Retention time.Duration
	// Lease and Heartbeat are as in [GuardConfig].
	Lease     time.Duration
	Heartbeat time.Duration
	// Log receives errors of the store. Defaults to discarding them.
	Log *slog.Logger
}

func (c MiddlewareConfig) withDefaults() MiddlewareConfig {
	if c.Methods == nil {
		c.Methods = []string{http.MethodPost, http.MethodPatch}
	}
	if c.Principal == nil {
		c.Principal = func(*http.Request) string { return "" }
	}
	if c.Wait == 0 {
		c.Wait = 5 * time.Second
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

// Middleware runs a handler effectively once for each Idempotency-Key, under a lease with a
// heartbeat as [Leased] does. It responds to repeated requests with the first response's status,
// headers and body, and Idempotent-Replayed: true.
//
//	no key                     400, or passed through, as configured; methods that are not
//	                           protected are passed through
//	another request, one key   422: method, path, query and body must be the same
//	error: 5xx, 408, 425, 429  returned, not stored: the next request runs
//	any other status           stored, refusals included
//	panic                      released; the panic continues, and the next request runs
//	crash before the handler   409 until the lease has expired, then the next request runs
//	crash after the handler    409 until the lease has expired, then the next request runs it
//	                           again
//	concurrent requests        the others wait for the first one's response, as configured, or
//	                           receive a 409 with Retry-After
//	a late attempt             its context ends; it receives the reply of the attempt that took
//	                           over, or a 409
//	the store is down          503 with Retry-After: no request runs unprotected
//	a reply over MaxReply      500, stored: the handler has run, and must not run again
//
// The headers that the handler set are replayed, except Date, Set-Cookie and those of one
// connection (RFC 9110, 7.6.1): a cookie is a secret of one response and must not be stored. Outer
// middleware sets its headers on each response itself.
//
// The handler's context does not end when the client disconnects, so that a retry finds the
// response; its deadline stays. If a handler returns without having written anything after its
// context has ended, the client receives a 503, which is not stored. Replies are held in memory
// until they are stored; Flush, Hijack, trailers and informational responses are not supported. The
// path in the fingerprint is the one that the handler sees: put http.StripPrefix inside, not
// outside.
func Middleware(t *Tokens, c MiddlewareConfig) func(http.Handler) http.Handler {
	c = c.withDefaults()
	guard := lease.New(t.store, lease.Config{
		Retention: c.Retention, Lease: c.Lease, Heartbeat: c.Heartbeat, Log: c.Log,
		// the recorder enforces the limit; the response that replaces a larger one must fit
		MaxReply: c.MaxReply + 1024,
	})
	return func(next http.Handler) http.Handler {
		return &keyed{MiddlewareConfig: c, guard: guard, next: next}
	}
}
