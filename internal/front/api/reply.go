package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

// headerReply marks the handler's own reply. A reply may have any content, even that of a receipt
// or a problem: without the header, clients could not distinguish it from these, or from the answer
// of a proxy in between.
const headerReply = "Once-Reply"

// answer collects the parts of the answer to one message.
type answer struct {
	message  *record.Message
	numbered bool // under sequence admission
	direct   bool // processed without the queue
	late     bool // numbered, and processed before
	replayed bool // not the first of its identity
	wait     int  // seconds that the caller waits; 0 if it does not
}

// receipt is the body that acknowledges a message.
type receipt struct {
	ID     string           `json:"id"`
	Stream string           `json:"stream"`
	Group  string           `json:"group"`
	Status admission.Status `json:"status"`
	// NotBefore is when a delayed message is due, in the answer to its sender.
	NotBefore time.Time `json:"not_before,omitzero"`
}

// accepted answers 202: the message is durable. The receipt says done if it was processed without
// the queue and is published; otherwise its processing may be over or still to come.
func (a *answer) accepted(w http.ResponseWriter, status admission.Status) error {
	if !a.direct || status != admission.StatusDone {
		status = admission.StatusAccepted
	}
	w.Header()["Location"] = []string{a.location("messages")}
	return a.receipt(w, http.StatusAccepted, status)
}

// done answers with the handler's reply, with its refusal, or with a receipt if there is neither.
func (a *answer) done(w http.ResponseWriter, reply *record.Reply) error {
	if reason, detail, ok := reply.Refused(); ok {
		return a.refused(w, reason, detail)
	}
	status := http.StatusOK
	if reply != nil && reply.Status != 0 {
		status = reply.Status
	}
	if status < 200 || status > 599 {
		return &problem.Problem{Type: problem.Internal}
	}
	a.first(w.Header())
	if reply == nil {
		return a.receipt(w, status, admission.StatusDone)
	}
	w.Header()[headerReply] = []string{"true"}
	a.granted(w.Header())
	writeReply(w, status, reply)
	return nil
}

func (a *answer) receipt(w http.ResponseWriter, code int, status admission.Status) error {
	if a.replayed {
		w.Header()[headerReplayed] = []string{"true"}
	}
	a.granted(w.Header())
	x := receipt{a.message.Identity(), a.message.Stream, a.message.GroupName(), status, a.message.NotBefore}
	if body, ok := x.plain(); ok {
		writeBody(w, code, body)
		return nil
	}
	return writeJSON(w, code, x)
}

// plain returns the receipt as encoding/json writes it, and a line feed. It returns false if a name
// has a character that may have to be escaped, and for a delayed message.
func (x *receipt) plain() ([]byte, bool) {
	if !x.NotBefore.IsZero() {
		return nil, false
	}
	b := make([]byte, 0, 64+len(x.ID)+len(x.Stream)+len(x.Group)+len(x.Status))
	for _, field := range [...][2]string{{`{"id":"`, x.ID}, {`","stream":"`, x.Stream}, {`","group":"`, x.Group}, {`","status":"`, string(x.Status)}} {
		if !record.IsPlain(field[1]) || strings.ContainsAny(field[1], "<>&") {
			return nil, false
		}
		b = append(append(b, field[0]...), field[1]...)
	}
	return append(b, "\"}\n"...), true
}

// refused answers a caller who waited with the problem of a refusal.
func (a *answer) refused(w http.ResponseWriter, reason record.Reason, detail string) error {
	if reason.Final() {
		a.first(w.Header())
	}
	a.granted(w.Header())
	return rejection(reason, detail)
}

// first sets the header that says whether the answer is the first one. If the message is numbered,
// it is unknown whether it is a repetition.
func (a *answer) first(h http.Header) {
	if !a.numbered {
		h[headerReplayed] = []string{strconv.FormatBool(a.replayed)}
	}
}

// granted sets the header with the time that the caller could wait.
func (a *answer) granted(h http.Header) {
	if a.wait > 0 {
		h["Preference-Applied"] = []string{"wait=" + strconv.Itoa(a.wait)}
	}
}

// location returns the path to look the message up at. A numbered message is looked up by its
// number, in the group that the query names.
func (a *answer) location(kind string) string {
	m := a.message
	if !a.numbered {
		return "/v1/streams/" + m.Stream + "/" + kind + "/" + escapeID(m.Identity())
	}
	return "/v1/streams/" + m.Stream + "/" + kind + "/" + escapeID(m.Number()) + "?group=" + url.QueryEscape(m.GroupName())
}

// escapeID escapes an id for a path; if it consisted of dots only, it would be taken for a folder.
func escapeID(id string) string {
	if strings.Trim(id, ".") == "" {
		return strings.Repeat("%2E", len(id))
	}
	return url.PathEscape(id)
}

func writeJSON(w http.ResponseWriter, code int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	writeBody(w, code, append(body, '\n'))
	return nil
}

func writeBody(w http.ResponseWriter, code int, body []byte) {
	h := w.Header()
	values := []string{"application/json", "no-store"} // one allocation in place of two
	h["Content-Type"], h["Cache-Control"] = values[:1:1], values[1:]
	w.WriteHeader(code)
	// If writing fails, the caller is gone.
	_, _ = w.Write(body)
}

// writeReply answers with the handler's reply, byte for byte.
func writeReply(w http.ResponseWriter, status int, reply *record.Reply) {
	h := w.Header()
	for name, values := range reply.Header {
		if name = http.CanonicalHeaderKey(name); !ofConnection(name) {
			h[name] = values
		}
	}
	if _, has := h["Content-Type"]; !has {
		h["Content-Type"] = nil // keeps net/http from guessing one
	}
	w.WriteHeader(status)
	_, _ = w.Write(reply.Body)
}

// ofConnection reports whether a header belongs to one connection, or is set by this answer itself.
func ofConnection(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length", "Date",
		headerReply, headerReplayed, "Preference-Applied":
		return true
	}
	return false
}
