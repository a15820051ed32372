package record

import (
	"strconv"
	"strings"
	"time"
)

// TokenState is the state of a token.
type TokenState uint8

// The states of a token. Absent stands for a missing or expired record.
const (
	Absent TokenState = iota
	Issued
	Leased
	Done
)

// String returns the state's word.
func (s TokenState) String() string {
	switch s {
	case Absent:
		return "absent"
	case Issued:
		return "issued"
	case Leased:
		return "leased"
	case Done:
		return "done"
	}
	return "TokenState(" + strconv.Itoa(int(s)) + ")"
}

// A Token is the record of one message identity.
type Token struct {
	Key         TokenKey
	State       TokenState
	Fingerprint Fingerprint
	// Stream and Group name the message's group record.
	Stream string
	Group  string
	// Owner is the unique name of the attempt that wrote the record; Epoch counts takeovers.
	// Together they are the fencing token.
	Owner string
	Epoch uint64
	// Lease is when the owner's lease ends; of a leased token.
	Lease time.Time
	Reply *Reply
	// Reason is why an issued token's message is a dead letter although nothing was decided about
	// it: its tries are over, or the log of its group has ended. A decision is a done token with a
	// [Refusal]; older versions wrote ReasonHandler here. For ReasonDeleted see [Token.Deleted] and
	// [Token.Deleting].
	Reason Reason
	// Detail explains the Reason to the sender.
	Detail string
	// Request is the stored one-time request, until it is done.
	Request *Message
	// Expires is when the record may be deleted; zero means never. Conditional writes check it.
	Expires time.Time
}

// Deleted reports whether the token is a tombstone: its request was deleted and can never run
// again.
func (t *Token) Deleted() bool { return t.State == Done && t.Reason == ReasonDeleted }

// Deleting reports whether the token's request is being deleted: no new attempt starts, but an
// attempt that started before may still be committed.
func (t *Token) Deleting() bool { return t.State == Issued && t.Reason == ReasonDeleted }

// OfRequest reports whether an attempt at a one-time request wrote the token, see [RequestAttempt].
func (t *Token) OfRequest() bool { return ofRequest(t.Owner) }

func ofRequest(attempt string) bool { return strings.HasSuffix(attempt, RequestAttempt) }

// StaleBy reports whether an issued token was issued before the message of a kept entry was done
// and forgotten. Such a token stays issued when its message is done, so it no longer shows that the
// message is new.
func (t *Token) StaleBy(p *Pending, now time.Time) bool {
	return t.State == Issued && t.Request == nil && !t.Deleting() && t.Key == p.Token && p.Forgotten(now) && t.Expires.Before(p.DoneUntil.Add(IssuedRetention))
}

// A Reply is a handler's answer. It is kept with the token and replayed byte for byte.
type Reply struct {
	Status int
	Header map[string][]string
	Body   []byte
}

// refusalHeader marks a reply that is a refusal. No valid header has a space in its name.
const refusalHeader = "once refusal"

// Refusal returns the reply that remembers a refusal: the message will not be processed, and every
// repetition gets this answer. Only a handler's own words are kept, as [RejectText] returns them.
func Refusal(reason Reason, detail string) *Reply {
	r := &Reply{Status: 400, Header: map[string][]string{refusalHeader: {string(reason)}}}
	if reason == ReasonHandler {
		r.Body = []byte(RejectText(detail))
	}
	return r
}

// Reopened returns the owner of a token whose refusal, by an attempt, an operator has taken back. A
// second time changes nothing.
func Reopened(attempt string) string {
	return reopenedPrefix + strings.TrimPrefix(attempt, reopenedPrefix)
}

const reopenedPrefix = "reopened "

// WasReopened reports whether an operator has taken back the refusal of an issued token's message.
func (t *Token) WasReopened() bool { return strings.HasPrefix(t.Owner, reopenedPrefix) }

// Refused returns the reason and the detail if the reply is a [Refusal].
func (r *Reply) Refused() (reason Reason, detail string, ok bool) {
	if r == nil || len(r.Header[refusalHeader]) != 1 {
		return "", "", false
	}
	return Reason(r.Header[refusalHeader][0]), string(r.Body), true
}

// IsKeptHeader reports whether a field of a handler's response is a part of its [Reply]. Fields
// that belong to one connection, one moment or one receiver are not. The name is in canonical form.
func IsKeptHeader(name string) bool {
	switch name {
	case "Date", "Set-Cookie", "Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Content-Length":
		return false
	}
	return true
}

// Size returns the size of the body and headers, or 0 if there is no reply.
func (r *Reply) Size() int {
	if r == nil {
		return 0
	}
	n := len(r.Body)
	for name, values := range r.Header {
		for _, v := range values {
			n += len(name) + len(v)
		}
	}
	return n
}
