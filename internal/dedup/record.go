package dedup

import (
	"slices"
	"strconv"
	"time"
)

// A Group is the record of one group: the one item that a commit's condition is on.
type Group struct {
	Key GroupKey
	// Incarnation is set when the record is created, to Unix milliseconds. Together with Version it names one content of the record for ever, also
	// across an expiry after which the versions start again; and it is the epoch under which the group's effects are numbered downstream.
	Incarnation uint64
	// Version counts commits; 0 means that there is no record, or an expired one.
	Version uint64
	// State is the handler's, opaque here.
	State []byte
	// Pending holds what is committed and not yet published, in number order.
	Pending []Pending
	// Last is the last number given to an effect or a pending entry.
	Last uint64
	// Sources holds the numbered senders by [Message.SourceKey].
	Sources map[string]Source
	// Chained counts the effects sent to each sequenced target (destination/group), so that every target sees 1, 2, 3 … without gaps.
	Chained map[string]uint64
	// Expires is when the record may be forgotten; zero while effects are pending or messages held.
	Expires time.Time
}

// A Source is what a group remembers of one numbered sender.
type Source struct {
	Epoch   uint64
	Next    uint64
	Held    Ranges
	Skipped Ranges
	// HeldBytes is the size of the held bodies and headers.
	HeldBytes int
	// GapSince is when the number Next was first missed; zero while nothing is held.
	GapSince time.Time
}

// Pending is one message that is committed and not yet published and cleared.
type Pending struct {
	// Number is the number of the first effect; each further effect has the next one. An entry without effects has a number of its own.
	Number      uint64
	Identity    string // of the message, within stream and principal
	Principal   string
	Token       TokenKey
	Fingerprint Fingerprint
	// Attempt is the unique name of the attempt that committed.
	Attempt string
	Effects []Effect
	// Sent lists what of Effects a publisher has sent already, where only a part could be sent.
	Sent  []Sent
	Reply *Reply
	// Marks tells whether the token is to be marked done: always, but for numbered messages without a reply.
	Marks bool
	// Retention is how long the done token is to be remembered.
	Retention time.Duration
}

// Sent names one effect of a pending entry and one destination of it.
type Sent struct {
	Effect int
	To     string
}

// An Effect is what a commit makes visible outside: a message to destinations, or a blob.
type Effect struct {
	// To lists the destinations of a message; empty for a blob.
	To []string
	// Group at the destination; empty means the group that sends.
	Group string
	// ID, Source, Epoch and Sequence are those of the message that is forwarded; empty where a handler made the effect.
	ID          string
	Source      string
	Epoch       uint64
	Sequence    uint64
	ContentType string
	Headers     map[string]string
	Body        []byte
	// Chain holds, for each sequenced destination in To, the effect's number there.
	Chain map[string]uint64
	Blob  *Blob
}

// A Blob is a staged object that becomes visible under its key when the attempt that staged it has won.
type Blob struct {
	Key    string
	Staged string
}

// A Reply is what a handler answered, kept with the token and replayed byte for byte.
type Reply struct {
	Status int
	Header map[string][]string
	Body   []byte
}

// Held is a message that arrived before its predecessors.
type Held struct {
	Message Message
	At      time.Time
}

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
	// Reason tells why the message was last refused, empty otherwise. A refused message can come again under the same identity.
	Reason Reason
	// Request is the stored one-time request, until it is done.
	Request *Message
	// Expires is when the record may be forgotten. It is decided inside conditions; the zero time is never.
	Expires time.Time
}

// HasEffects reports whether anything waits to be published.
func (g *Group) HasEffects() bool {
	return slices.ContainsFunc(g.Pending, func(p Pending) bool { return len(p.Effects) > 0 })
}

// HasHeld reports whether any message is held.
func (g *Group) HasHeld() bool {
	for _, s := range g.Sources {
		if len(s.Held) > 0 {
			return true
		}
	}
	return false
}

// pendingBytes is the size of what waits to be published.
func (g *Group) pendingBytes() int {
	n := 0
	for _, p := range g.Pending {
		n += p.size()
	}
	return n
}

func (p *Pending) size() int {
	n := 200 + len(p.Identity) + p.Reply.size()
	for _, e := range p.Effects {
		n += 100 + len(e.Body) + len(e.ContentType) + headerBytes(e.Headers)
	}
	return n
}

func (r *Reply) size() int {
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

func headerBytes(h map[string]string) int {
	n := 0
	for name, value := range h {
		n += len(name) + len(value)
	}
	return n
}
