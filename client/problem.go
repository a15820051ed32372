package client

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ProblemType is the stable name of a kind of refusal: what stands after the # of the type URI. It is an error so that errors.Is takes it.
type ProblemType string

// Error gives the name.
func (t ProblemType) Error() string { return string(t) }

// The types of problems.
const (
	MissingKey           ProblemType = "missing-key"
	MalformedKey         ProblemType = "malformed-key"
	MalformedRequest     ProblemType = "malformed-request"
	InvalidMessage       ProblemType = "invalid-message"
	Rejected             ProblemType = "rejected"
	Forbidden            ProblemType = "forbidden"
	UnknownRoute         ProblemType = "unknown-route"
	UnknownStream        ProblemType = "unknown-stream"
	UnknownMessage       ProblemType = "unknown-message"
	MethodNotAllowed     ProblemType = "method-not-allowed"
	Leased               ProblemType = "leased"
	Deleted              ProblemType = "deleted"
	TooLarge             ProblemType = "too-large"
	UnsupportedMediaType ProblemType = "unsupported-media-type"
	KeyReuse             ProblemType = "key-reuse"
	RateLimited          ProblemType = "rate-limited"
	Internal             ProblemType = "internal"
	Unavailable          ProblemType = "unavailable"
)

// Problem is an answer that is neither a receipt nor a reply, with the fields of RFC 9457. Where Type is set it is the server's refusal. Where Type is
// empty it is no word of a once server: of a proxy, a firewall or a login page in its place, or the rest of an answer that was cut. What was sent may have
// been taken behind it, so that Ambiguous is true.
type Problem struct {
	Type     ProblemType
	Title    string
	Status   int
	Detail   string
	Instance string
	// RetryAfter is what the answer asked for, 0 for nothing; a minute at most where Type is empty.
	RetryAfter time.Duration
	// Ambiguous is true when what was sent may have been taken all the same: by this try, where Type is empty, or by an earlier try of the same call, or
	// one that the transport made by itself, which had no answer.
	Ambiguous bool
	// Key is the key of the message that the answer ended, also where the client made it: where Ambiguous is true, send the message again under it. For a
	// one-time request it is the id. Empty for a numbered message without a key, for a look-up, and where the call goes on or ends without an answer, as in
	// [UnacknowledgedError.Last].
	Key string
}

// Error gives status, title and detail.
func (p *Problem) Error() string {
	text := strconv.Itoa(p.Status) + " " + p.Title
	if p.Type != "" {
		text += " (" + string(p.Type) + ")"
	}
	if p.Detail != "" {
		text += ": " + p.Detail
	}
	return text
}

// Is reports whether target is the problem's type.
func (p *Problem) Is(target error) bool {
	t, ok := target.(ProblemType)
	return ok && t != "" && t == p.Type
}

// again reports whether the same request may get another answer later.
func (p *Problem) again() bool {
	switch p.Status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return p.Status >= http.StatusInternalServerError
}

// UnacknowledgedError says that a call ended without an answer: what it sent may have been taken or not. Send it again under the same key.
type UnacknowledgedError struct {
	// Key is the message's key, also where the client made it; for a one-time request it is the id. Empty for a numbered message without a key, and for a
	// look-up.
	Key string
	// Err tells the last reason: the network's or the context's.
	Err error
	// Last is the last answer, where there was one; nil else. It is not part of the error's chain, so that errors.As finds a [*Problem] only where it
	// ended the call.
	Last *Problem
}

// Error tells the last reason, and the last answer.
func (e *UnacknowledgedError) Error() string {
	text := "not acknowledged"
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Last != nil {
		text += ": the last answer was " + e.Last.Error()
	}
	return text
}

// Unwrap gives Err.
func (e *UnacknowledgedError) Unwrap() error { return e.Err }

const typeBase = "https://github.com/effectively-once/once/"

// readProblem reads a problem of a once server; ok is false for any other answer, a problem of somebody else included.
func readProblem(a answer) (p *Problem, ok bool) {
	// A media type that can't be parsed comes back empty.
	if media, _, _ := mime.ParseMediaType(a.header.Get("Content-Type")); media != "application/problem+json" || a.status < http.StatusBadRequest {
		return nil, false
	}
	var doc struct {
		Type     string `json:"type"`
		Title    string `json:"title"`
		Detail   string `json:"detail"`
		Instance string `json:"instance"`
	}
	_ = json.Unmarshal(a.body, &doc) // what is no JSON has no type either
	_, name, _ := strings.Cut(doc.Type, "#")
	if !strings.HasPrefix(doc.Type, typeBase) || name == "" {
		return nil, false
	}
	return &Problem{
		Type: ProblemType(name), Title: doc.Title, Status: a.status, Detail: doc.Detail, Instance: doc.Instance, RetryAfter: a.retryAfter(),
	}, true
}

// problemOf makes a problem of any answer that is not a success.
func problemOf(a answer) *Problem {
	if p, ok := readProblem(a); ok {
		return p
	}
	title := http.StatusText(a.status)
	if title == "" {
		title = "Unknown status"
	}
	return &Problem{Title: title, Status: a.status, RetryAfter: min(a.retryAfter(), longestOfStrangers), Detail: foreign(a)}
}

func foreign(a answer) string {
	if location := a.header.Get("Location"); location != "" && a.status >= 300 && a.status < 400 {
		return fmt.Sprintf("redirects are not followed: is the server at %q?", location)
	}
	return "the answer is not that of a once server"
}
