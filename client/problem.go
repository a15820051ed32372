package client

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ProblemType is the name of a kind of refusal: the fragment of the type URI. Programs may rely on
// it. It is an error so that errors.Is accepts it.
type ProblemType string

// Error returns the name.
func (t ProblemType) Error() string { return string(t) }

// The types of problems.
const (
	MissingKey           ProblemType = "missing-key"
	MalformedKey         ProblemType = "malformed-key"
	MalformedRequest     ProblemType = "malformed-request"
	InvalidMessage       ProblemType = "invalid-message"
	Rejected             ProblemType = "rejected"
	Unauthorized         ProblemType = "unauthorized"
	Forbidden            ProblemType = "forbidden"
	UnknownRoute         ProblemType = "unknown-route"
	UnknownStream        ProblemType = "unknown-stream"
	UnknownMessage       ProblemType = "unknown-message"
	NoLog                ProblemType = "no-log"
	NoPool               ProblemType = "no-pool"
	UnknownSession       ProblemType = "unknown-session"
	MethodNotAllowed     ProblemType = "method-not-allowed"
	NotAcceptable        ProblemType = "not-acceptable"
	IncompleteBody       ProblemType = "incomplete-body"
	Leased               ProblemType = "leased"
	Ended                ProblemType = "ended"
	Ahead                ProblemType = "ahead"
	Fenced               ProblemType = "fenced"
	Deleted              ProblemType = "deleted"
	Expired              ProblemType = "expired"
	UnknownEpoch         ProblemType = "unknown-epoch"
	TooLarge             ProblemType = "too-large"
	UnsupportedMediaType ProblemType = "unsupported-media-type"
	KeyReuse             ProblemType = "key-reuse"
	RateLimited          ProblemType = "rate-limited"
	Internal             ProblemType = "internal"
	Unavailable          ProblemType = "unavailable"
	Loop                 ProblemType = "loop"
	Held                 ProblemType = "held"
	Moved                ProblemType = "moved"
	Retired              ProblemType = "retired"
	Restored             ProblemType = "restored"
)

// Problem is a response that is neither a receipt nor a reply, with the fields of RFC 9457. If Type
// is set, it is a refusal by the server. If Type is empty, it does not come from a once server, but
// from a proxy, a firewall or a login page, or it is the rest of a truncated response. Then the
// server may have accepted the message, and Ambiguous is true.
type Problem struct {
	Type     ProblemType
	Title    string
	Status   int
	Detail   string
	Instance string
	// RetryAfter is the requested wait, or 0; at most a minute if Type is empty.
	RetryAfter time.Duration
	// Ambiguous is true if the server may have accepted the message anyway: in this try, if Type is
	// empty; in an earlier try of the same call; or in a repetition by the transport to which there
	// was no response.
	Ambiguous bool
	// Key is the message's key, even if the client generated it; if Ambiguous is true, send the
	// message again under it. For a one-time request it is the id. It is empty for a numbered
	// message without a key, for a look-up, and in [UnacknowledgedError.Last].
	Key string
	// First is the number of the first entry that a log or session has kept, with [Expired]; 0 if
	// there is none.
	First uint64
	// Next is the offset at which a reader can continue, with [Expired] and [Ahead].
	Next string
	// Epoch is the newest epoch of the source, with [Fenced], if an epoch was asked for; 0 if there
	// is none.
	Epoch uint64
	// Holder is who holds a session, with [Held] and [Fenced].
	Holder string
	// Fence is the present fence of a session, with [Fenced]; 0 if the problem is about something
	// else.
	Fence uint64
	// Cursor is where the cursor of a session is, with [Moved].
	Cursor uint64
	// Last is the last number that was dealt to a session, with [Ahead].
	Last uint64
}

// Error returns status, title and detail.
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

// again reports whether a retry of the same request may have another result.
func (p *Problem) again() bool {
	if slices.Contains([]ProblemType{Ahead, Fenced, Ended, Loop, Held, Moved, Restored, Retired}, p.Type) {
		return false // a log will have other entries there, or none; a newer epoch or fence stays
	}
	switch p.Status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return p.Status >= http.StatusInternalServerError
}

// UnacknowledgedError says that a call ended without an answer: the server may have accepted the
// message. Send it again under the same key.
type UnacknowledgedError struct {
	// Key is the message's key, even if the client generated it; for a one-time request it is the
	// id. It is empty for a numbered message without a key, and for a look-up.
	Key string
	// Unsent is true if no try could connect: nothing was sent, so nothing can have been accepted.
	Unsent bool
	// Err is the last error of the network or the context.
	Err error
	// Last is the last response that was a problem, or nil. It is not part of the error's chain, so
	// that errors.As finds a [*Problem] only if it ended the call.
	Last *Problem
}

// Error returns the last error, and the last response.
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

// Unwrap returns Err.
func (e *UnacknowledgedError) Unwrap() error { return e.Err }

const typeBase = "https://github.com/effectively-once/once/"

// readProblem parses a problem of a once server; ok is false for any other response, including
// problems of other servers.
func readProblem(a answer) (p *Problem, ok bool) {
	// A media type that can't be parsed is returned empty.
	if media, _, _ := mime.ParseMediaType(a.header.Get("Content-Type")); media != "application/problem+json" || a.status < http.StatusBadRequest {
		return nil, false
	}
	var doc problemDocument
	_ = json.Unmarshal(a.body, &doc) // a body that is not JSON has no type
	if doc.name() == "" {
		return nil, false
	}
	p = doc.problem(a.status)
	if p.RetryAfter = a.retryAfter(); doc.RetryAfter > 0 { // more exact than the header
		p.RetryAfter = time.Duration(min(doc.RetryAfter, longest.Seconds()) * float64(time.Second))
	}
	return p, true
}

// problemDocument is a problem as JSON.
type problemDocument struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Detail   string `json:"detail"`
	Instance string `json:"instance"`
	First    uint64 `json:"first"`
	Next     string `json:"next"`
	Epoch    uint64 `json:"epoch"`
	Holder   string `json:"holder"`
	Fence    uint64 `json:"fence"`
	Cursor   uint64 `json:"cursor"`
	Last     uint64 `json:"last"`
	// RetryAfter is in seconds, with held.
	RetryAfter float64 `json:"retry_after"`
}

// name returns the name of the type, or "" if it is not that of a once server.
func (d *problemDocument) name() ProblemType {
	_, name, _ := strings.Cut(d.Type, "#")
	if !strings.HasPrefix(d.Type, typeBase) {
		return ""
	}
	return ProblemType(name)
}

func (d *problemDocument) problem(status int) *Problem {
	return &Problem{
		Type: d.name(), Title: d.Title, Status: status, Detail: d.Detail, Instance: d.Instance,
		First: d.First, Next: d.Next, Epoch: d.Epoch, Holder: d.Holder, Fence: d.Fence, Cursor: d.Cursor, Last: d.Last,
	}
}

// problemOf returns a problem for any response that is not a success.
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
