package record

import (
	"strconv"
	"strings"
	"time"
)

// TokenState is the state of a token.
type TokenState uint8

// The states of a token. Absent is what a missing or an expired record reads as.
const (
	Absent TokenState = iota
	Issued
	Leased
	Done
)

// String gives the state's word.
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
	// Stream and Group tell where the message's group record is.
	Stream string
	Group  string
	// Owner is the unique name of the attempt that wrote the record; Epoch counts its takeovers. Together they are the fence.
	Owner string
	Epoch uint64
	// Lease is until when a leased token is its owner's.
	Lease time.Time
	Reply *Reply
	// Reason tells why the message was last refused, empty otherwise. A refused message can come again under the same identity. ReasonDeleted: see [Token.Deleted] and [Token.Deleting].
	Reason Reason
	// Request is the stored one-time request, until it is done.
	Request *Message
	// Expires is when the record may be forgotten. It is decided inside conditions; the zero time is never.
	Expires time.Time
}

// Deleted reports whether the token is a tombstone: its request was deleted, and nobody can run it any more.
func (t *Token) Deleted() bool { return t.State == Done && t.Reason == ReasonDeleted }

// Deleting reports whether the token's request is being deleted: nobody begins to run it, but an attempt that began before may yet be committed.
func (t *Token) Deleting() bool { return t.State == Issued && t.Reason == ReasonDeleted }

// OfRequest reports whether an attempt at a one-time request wrote the token, see [RequestAttempt].
func (t *Token) OfRequest() bool { return strings.HasSuffix(t.Owner, RequestAttempt) }

// A Reply is what a handler answered, kept with the token and replayed byte for byte.
type Reply struct {
	Status int
	Header map[string][]string
	Body   []byte
}

// Size is the size of the body and headers; 0 of no reply.
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
