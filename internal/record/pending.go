package record

import (
	"slices"
	"time"
)

// Pending is one message that is committed and not yet published and cleared.
type Pending struct {
	// Number is the number of the first effect; each further effect takes the next one. An entry
	// without effects has a number too.
	Number    uint64
	Identity  string // of the message, within stream and principal
	Principal string
	Token     TokenKey
	// Fingerprint is the message's fingerprint, shortened by [Pending.Print].
	Fingerprint Fingerprint
	// Attempt is the unique name of the attempt that committed.
	Attempt string
	Effects []Effect
	// Sent lists the effects that a publisher has sent already, if it could send only some of them.
	Sent  []Sent
	Reply *Reply
	// Marks reports whether the token is to be marked done. It is false for a numbered message
	// without a reply.
	Marks bool
	// Retention is how long the done token is to be kept.
	Retention time.Duration
	// Committed is the time of the commit, in whole seconds, of an entry with effects. Their
	// retries end by it.
	Committed time.Time
	// DoneUntil is set if the entry takes the place of a done token: the message is done, and the
	// entry counts until then. Such an entry has no effects. In whole seconds; zero in all other
	// entries. See [Pending.Keep].
	DoneUntil time.Time
}

// Kept reports whether the entry takes the place of a done token.
func (p *Pending) Kept() bool { return !p.DoneUntil.IsZero() }

// Forgotten reports whether the entry takes the place of a done token that has expired. At this
// very moment it is forgotten, as in the store.
func (p *Pending) Forgotten(now time.Time) bool { return p.Kept() && !p.DoneUntil.After(now) }

// Keep returns the form of the entry that takes the place of a done token of a message that is done
// now. It is not to be stored before all effects are sent.
func (p Pending) Keep(now time.Time) Pending {
	p.Effects, p.Sent, p.Committed = nil, nil, time.Time{}
	p.DoneUntil = now.Add(p.Retention + time.Second - time.Nanosecond).Truncate(time.Second).UTC()
	return p
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
	// ID, Source, Epoch and Sequence are those of the forwarded message; they are empty if a
	// handler made the effect.
	ID       string
	Source   string
	Epoch    uint64
	Sequence uint64
	// Via names the systems that the message came through which made the effect, before this one.
	Via         []string
	ContentType string
	Headers     map[string]string
	Body        []byte
	// DependsOn is [Message.DependsOn] of the message that a stream gets.
	DependsOn map[string]uint64
	// Chain holds, for each sequenced destination in To, the effect's number there.
	Chain map[string]uint64
	Blob  *Blob
	// NotBefore delays the effect: it is sent at this time, not before. Zero means at once. A
	// delayed effect takes no number of a sequenced destination. A blob can't be delayed.
	NotBefore time.Time
	// Timer is set if the effect is the message of a timer of the own group: the timer's name. Its
	// number is that of the effect, and To is [ToTimer].
	Timer string
}

// Delayed reports whether the effect goes to a queue that holds it until NotBefore.
func (f *Effect) Delayed() bool { return f.Timer != "" || !f.NotBefore.IsZero() }

// A Blob is a staged object. It becomes visible under its key when the attempt that staged it is
// committed.
type Blob struct {
	Key    string
	Staged string
}

// Size returns roughly how many bytes the entry takes in the group record.
func (p *Pending) Size() int {
	n := 200 + len(p.Identity) + p.Reply.Size()
	for _, e := range p.Effects {
		n += 100 + len(e.Body) + len(e.ContentType) + headerBytes(e.Headers) + size(e.DependsOn) + 8*len(e.DependsOn) + viaBytes(e.Via) + len(e.Timer)
	}
	return n
}

func viaBytes(via []string) int {
	n := 0
	for _, name := range via {
		n += len(name) + 2
	}
	return n
}

// Print returns the part of a fingerprint that the entry keeps: all of it if the entry has a token.
// Otherwise it keeps only the first half, because such entries are many and small. Half is enough
// to tell two contents apart: to find a collision, their sender would have to try 2^64 of them.
func (p *Pending) Print(f Fingerprint) Fingerprint {
	if !p.Marks {
		clear(f[len(f)/2:])
	}
	return f
}

// Unsent reports whether any effect of the entry was not sent before and is not in now, the list of
// a publisher's sends.
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

// DoneToken returns the token of the committed message, as marked done at now. The token of a kept
// entry expires when the entry would.
func (p *Pending) DoneToken(key GroupKey, now time.Time) Token {
	expires := now.Add(p.Retention)
	if p.Kept() {
		expires = p.DoneUntil
	}
	return Token{
		Key: p.Token, State: Done, Fingerprint: p.Fingerprint, Stream: key.Stream, Group: key.Group, Owner: p.Attempt,
		Reply: p.Reply, Expires: expires,
	}
}

// Target returns the effect's group at the destination.
func (f *Effect) Target(from GroupKey) string {
	if f.Group != "" {
		return f.Group
	}
	return from.Group
}
