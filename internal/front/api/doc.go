// Package api is the HTTP API: it issues a message's token, puts the message on the ingress
// queue, and answers; a duplicate gets the answer of the first request. The contract for callers is
// docs/http.md; openapi.json is the same for machines.
//
//	route      the routes, and refusing all others              api.go
//	parse      keys, numbers, preferences, headers, bodies      key.go, headers.go, prefer.go, message.go
//	accept     token, then queue, then 202                      accept.go
//	wait       until the message is done, then its reply        await.go
//	look up    the status of a message                          status.go
//	requests   store, run once, forget                          request.go
//	read       the log of a group: query, pages, events         readlog.go, logquery.go, logpage.go, logevents.go
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
