// Package problem writes RFC 9457 problem details: the one form in which HTTP callers get errors.
package problem

import (
	"cmp"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// base begins every type URI; the type's name follows. Each is an anchor of the page that documents
// the HTTP contract.
const base = "https://github.com/effectively-once/once/blob/main/docs/http.md#"

// A Type names a kind of problem. Names are stable: callers may decide by them.
type Type string

// The types, with the status that each is answered with.
const (
	MissingKey           Type = "missing-key"            // 400
	MalformedKey         Type = "malformed-key"          // 400
	MalformedRequest     Type = "malformed-request"      // 400
	InvalidMessage       Type = "invalid-message"        // 400
	Rejected             Type = "rejected"               // 400
	Unauthorized         Type = "unauthorized"           // 401, with WWW-Authenticate
	Forbidden            Type = "forbidden"              // 403
	UnknownRoute         Type = "unknown-route"          // 404
	UnknownStream        Type = "unknown-stream"         // 404
	UnknownMessage       Type = "unknown-message"        // 404
	UnknownSession       Type = "unknown-session"        // 404
	NoLog                Type = "no-log"                 // 404
	NoPool               Type = "no-pool"                // 404
	MethodNotAllowed     Type = "method-not-allowed"     // 405, with Allow
	NotAcceptable        Type = "not-acceptable"         // 406
	IncompleteBody       Type = "incomplete-body"        // 408
	Leased               Type = "leased"                 // 409, with Retry-After
	Ahead                Type = "ahead"                  // 409, with next, or with last
	Fenced               Type = "fenced"                 // 409, with epoch, or with fence and holder
	Ended                Type = "ended"                  // 409, and 410 for a session
	Held                 Type = "held"                   // 409, with holder and Retry-After
	Moved                Type = "moved"                  // 409, with cursor
	Restored             Type = "restored"               // 409
	Deleted              Type = "deleted"                // 410
	Expired              Type = "expired"                // 410, with first and next
	UnknownEpoch         Type = "unknown-epoch"          // 410
	Retired              Type = "retired"                // 410
	TooLarge             Type = "too-large"              // 413
	UnsupportedMediaType Type = "unsupported-media-type" // 415
	KeyReuse             Type = "key-reuse"              // 422
	RateLimited          Type = "rate-limited"           // 429, with Retry-After
	Internal             Type = "internal"               // 500
	Unavailable          Type = "unavailable"            // 503, with Retry-After
	Loop                 Type = "loop"                   // 508
)

// Types lists every type.
func Types() []Type {
	return []Type{
		MissingKey, MalformedKey, MalformedRequest, InvalidMessage, Rejected, Unauthorized, Forbidden, UnknownRoute, UnknownStream, UnknownMessage, UnknownSession, NoLog, NoPool,
		MethodNotAllowed, NotAcceptable, IncompleteBody, Leased, Ahead, Fenced, Ended, Held, Moved, Restored, Deleted, Expired, UnknownEpoch, Retired, TooLarge, UnsupportedMediaType, KeyReuse, RateLimited, Internal, Unavailable, Loop,
	}
}

// URI returns the type's identifier, which is also the address of its documentation.
func (t Type) URI() string { return base + string(t) }

// Status returns the HTTP status of the type; 500 if the name is not one of the types.
func (t Type) Status() int {
	status, _ := t.describe()
	return status
}

// Title returns a short summary of the type, the same for every occurrence.
func (t Type) Title() string {
	_, title := t.describe()
	return title
}

func (t Type) describe() (status int, title string) {
	switch t {
	case MissingKey:
		return http.StatusBadRequest, "Idempotency-Key is missing"
	case MalformedKey:
		return http.StatusBadRequest, "Idempotency-Key is malformed"
	case MalformedRequest:
		return http.StatusBadRequest, "Request is malformed"
	case InvalidMessage:
		return http.StatusBadRequest, "Message breaks a rule"
	case Rejected:
		return http.StatusBadRequest, "Message was rejected"
	case Unauthorized:
		return http.StatusUnauthorized, "Caller is not authenticated"
	case Forbidden:
		return http.StatusForbidden, "Caller is not allowed to do this"
	case UnknownRoute:
		return http.StatusNotFound, "No such route"
	case UnknownStream:
		return http.StatusNotFound, "No such stream"
	case UnknownMessage:
		return http.StatusNotFound, "No such message"
	case UnknownSession:
		return http.StatusNotFound, "No such session"
	case NoPool:
		return http.StatusNotFound, "Stream has no pool"
	case NoLog:
		return http.StatusNotFound, "Stream keeps no log"
	case MethodNotAllowed:
		return http.StatusMethodNotAllowed, "Method is not allowed here"
	case NotAcceptable:
		return http.StatusNotAcceptable, "No such format"
	case IncompleteBody:
		return http.StatusRequestTimeout, "Body is not complete"
	case Leased:
		return http.StatusConflict, "Message is being processed elsewhere"
	case Ahead:
		return http.StatusConflict, "Log ends before this offset"
	case Fenced:
		return http.StatusConflict, "Another has taken its place"
	case Ended:
		return http.StatusConflict, "Stream or log has ended"
	case Held:
		return http.StatusConflict, "Session is held by another consumer"
	case Moved:
		return http.StatusConflict, "Cursor is elsewhere"
	case Restored:
		return http.StatusConflict, "System was restored from an older copy"
	case Retired:
		return http.StatusGone, "Session is retired"
	case Deleted:
		return http.StatusGone, "Request was deleted"
	case Expired:
		return http.StatusGone, "Entries have expired"
	case UnknownEpoch:
		return http.StatusGone, "Epoch is not known"
	case TooLarge:
		return http.StatusRequestEntityTooLarge, "Body is too large"
	case UnsupportedMediaType:
		return http.StatusUnsupportedMediaType, "Content is not supported"
	case KeyReuse:
		return http.StatusUnprocessableEntity, "Key was used for another content"
	case RateLimited:
		return http.StatusTooManyRequests, "Too many requests"
	case Unavailable:
		return http.StatusServiceUnavailable, "Service is unavailable"
	case Loop:
		return http.StatusLoopDetected, "Message came through this system before"
	case Internal:
	}
	return http.StatusInternalServerError, "Internal error"
}

// A Problem is one occurrence. It is an error that holds the answer until it is written.
type Problem struct {
	Type Type
	// Base replaces the beginning of the type's URI, for services with pages of their own. The name
	// of the type follows. Empty means the page of the HTTP contract.
	Base string
	// Title replaces the title of the type. Empty means that of the type.
	Title string
	// Status replaces the status of the type. 0 means that of the type.
	Status int
	// Detail explains to people why this request was refused; it never holds the text of an
	// internal error. May be empty.
	Detail string
	// RetryAfter is the time until the caller should try again, rounded up to seconds. If it is 0,
	// the header is left out, except for Leased, RateLimited and Unavailable, which send 1 second.
	RetryAfter time.Duration
	// Allow lists the methods of MethodNotAllowed.
	Allow []string
	// First is the number of the first entry that a log still has, with Expired. It is 0 if the log
	// has no entries at all.
	First uint64
	// Next is the offset at which a reader can continue, with Expired and Ahead. It is empty if
	// there is none.
	Next string
	// Epoch is the newest epoch of a source, with Fenced. It is 0 if there is none, or if it is not
	// told.
	Epoch uint64
	// Fence is that of the last open of a session, with Fenced. It is 0 if there is none.
	Fence uint64
	// Holder is the consumer that holds a session, with Held and Fenced.
	Holder string
	// Cursor is that of a session, with Moved.
	Cursor *uint64
	// Last is the last number of a session, with Ahead.
	Last *uint64
}

// New returns a problem with a detail.
func New(t Type, detail string) *Problem { return &Problem{Type: t, Detail: detail} }

func (p *Problem) Error() string {
	if p.Detail == "" {
		return string(p.Type)
	}
	return string(p.Type) + ": " + p.Detail
}

// document is the JSON shape, members in the order of RFC 9457.
type document struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail,omitempty"`
	Instance string `json:"instance,omitempty"`
	First    uint64 `json:"first,omitempty"`
	Next     string `json:"next,omitempty"`
	Epoch    uint64 `json:"epoch,omitempty"`
	Fence    uint64 `json:"fence,omitempty"`
	Holder   string `json:"holder,omitempty"`
	// RetryAfter has the seconds, with Held. They are whole in the header of that name.
	RetryAfter float64 `json:"retry_after,omitempty"`
	Cursor     *uint64 `json:"cursor,omitempty"`
	Last       *uint64 `json:"last,omitempty"`
}

func (p *Problem) document(instance string) document {
	status, title := p.Type.describe()
	d := document{
		Type: cmp.Or(p.Base, base) + string(p.Type), Title: cmp.Or(p.Title, title), Status: cmp.Or(p.Status, status), Detail: p.Detail, Instance: instance, First: p.First, Next: p.Next, Epoch: p.Epoch,
		Fence: p.Fence, Holder: p.Holder, Cursor: p.Cursor, Last: p.Last,
	}
	if p.Type == Held {
		d.RetryAfter = p.RetryAfter.Seconds()
	}
	return d
}

// JSON returns the problem as JSON, without a line break.
func (p *Problem) JSON(instance string) []byte {
	// Strings and numbers always encode.
	body, _ := json.Marshal(p.document(instance))
	return body
}

// Write answers with the problem. Instance identifies the occurrence, for support: a request id as
// a URI. It may be empty.
func (p *Problem) Write(w http.ResponseWriter, instance string) {
	body := p.JSON(instance)
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if len(p.Allow) > 0 {
		h.Set("Allow", strings.Join(p.Allow, ", "))
	}
	if seconds := p.retrySeconds(); seconds > 0 {
		h.Set("Retry-After", strconv.Itoa(seconds))
	}
	w.WriteHeader(cmp.Or(p.Status, p.Type.Status()))
	// If writing fails, the caller is gone.
	_, _ = w.Write(append(body, '\n'))
}

// An Item is a problem within an answer that has several results. RFC 9457 allows its last two
// members as extensions.
type Item struct {
	document
	// RetryAfter has the seconds of the Retry-After header, which belongs to a whole answer.
	RetryAfter int `json:"retry_after,omitempty"`
	// Line is the record of the request that the problem is about.
	Line int `json:"line,omitempty"`
}

// Item returns the problem as a part of an answer.
func (p *Problem) Item(instance string, line int) Item {
	return Item{p.document(instance), p.retrySeconds(), line}
}

// retrySeconds rounds up: if a caller came a fraction too early, it would be refused again.
func (p *Problem) retrySeconds() int {
	if p.RetryAfter > 0 {
		return int(math.Ceil(p.RetryAfter.Seconds()))
	}
	if p.Type == Held || p.Type == Leased || p.Type == RateLimited || p.Type == Unavailable {
		return 1
	}
	return 0
}
