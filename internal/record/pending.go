package record

import (
	"slices"
	"time"
)

// Pending is one message that is committed and not yet published and cleared.
type Pending struct {
	// Number is the number of the first effect; each further effect has the next one. An entry without effects has a number of its own.
	Number    uint64
	Identity  string // of the message, within stream and principal
	Principal string
	Token     TokenKey
	// Fingerprint is the message's, as [Pending.Print] gives it.
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

// Size is about how many bytes the entry takes in the group record.
func (p *Pending) Size() int {
	n := 200 + len(p.Identity) + p.Reply.Size()
	for _, e := range p.Effects {
		n += 100 + len(e.Body) + len(e.ContentType) + headerBytes(e.Headers)
	}
	return n
}

// Print is what an entry keeps of its message's fingerprint: all of it for a token, and without one the first half, because entries are many and small. Half of one tells two
// contents apart as well: their sender would have to look for 2^64 of them.
func (p *Pending) Print(f Fingerprint) Fingerprint {
	if !p.Marks {
		clear(f[len(f)/2:])
	}
	return f
}

// Unsent reports whether anything of an entry is sent neither now, by a publisher that asks, nor before.
func (p *Pending) Unsent(now []Sent) bool {
	for i, f := range p.Effects {
		for _, to := range f.To {
			if s := (Sent{i, to}); !slices.Contains(now, s) && !slices.Contains(p.Sent, s) {
				return true
			}
		}
	}
	return false
}

// DoneToken is the token of a committed message, to be written at a time.
func (p *Pending) DoneToken(key GroupKey, now time.Time) Token {
	return Token{
		Key: p.Token, State: Done, Fingerprint: p.Fingerprint, Stream: key.Stream, Group: key.Group, Owner: p.Attempt,
		Reply: p.Reply, Expires: now.Add(p.Retention),
	}
}

// Target is the group at the destination.
func (f *Effect) Target(from GroupKey) string {
	if f.Group != "" {
		return f.Group
	}
	return from.Group
}
