// Package api is the HTTP API: it issues a message's token, puts the message on the ingress
// queue, and answers; a duplicate gets the answer of the first request. The contract for callers is
// docs/http.md; openapi.json is the same for machines.
//
// # Errors
//
// Every answer that is not a success is a problem of package problem. Errors of the engine and of
// the queue are logged once and answered with 503 and Retry-After: the HTTP API fails closed, and
// it never shows the text of an error. After any of them the caller repeats the request under the
// same key.
//
// # Limits
//
// Bodies are at most as large as their stream allows, see [record.Stream.BodyLimit], and are read
// whole. A stream under sequence admission has no tokens, so its duplicates are found when they are
// processed: they get the same 202, without Idempotent-Replayed.
package api
