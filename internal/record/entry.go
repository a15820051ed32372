package record

import (
	"context"
	"time"

	"github.com/effectively-once/once/clock"
)

// EntryKind is the kind of a log entry.
type EntryKind string

// The kinds of entry.
const (
	EntryMessage EntryKind = "message" // a processed message, or an entry of its handler
	EntryGap     EntryKind = "gap"     // numbers of a source that were skipped
	EntryEnd     EntryKind = "end"     // the last entry of a log
)

// An Entry is one record of a group's log. The commit that appends it sets Number and Time.
type Entry struct {
	// Number counts the entries of one incarnation of the group: 1, 2, 3 … without holes.
	Number uint64
	Kind   EntryKind
	// ID is the identity of the message. It may be left empty if that is its number: source, epoch
	// and sequence.
	ID string
	// RedeliveryOf is the ID of the first entry of the message, if this one is that of a dead
	// letter of a pool that was redriven.
	RedeliveryOf string
	// Group is the group that the sender of the message named, if the log is that of a partition.
	Group string
	// Principal is the sender of the message. Readers see it only if it is their own.
	Principal string
	// Source, Epoch and Sequence are those of a numbered message. An entry of kind EntryGap has the
	// source, the epoch and the skipped numbers.
	Source   string
	Epoch    uint64
	Sequence uint64
	From, To uint64
	// Parents are the numbers of entries of the same log that the message answers.
	Parents []uint64
	// ParentsMissing says that some of Parents were not in the log: the gap policy ended the wait
	// for them.
	ParentsMissing bool
	// Via names the systems that the message came through before this one.
	Via []string
	// Late says that the sender had not seen all entries that are before this one in time.
	Late bool
	// Time is the hybrid time of the commit. It rises with the number.
	Time        clock.Hybrid
	ContentType string
	Headers     map[string]string
	Body        []byte
}

// Named reports whether the entry has an ID, or needs none because it is not about a message.
func (e *Entry) Named() bool { return e.ID != "" || e.Sequence == 0 }

// Size returns about how many bytes the entry takes in a chunk.
func (e *Entry) Size() int {
	const (
		rest   = 112 // the names of the fields, the time and the numbers
		number = 12  // of an ID, beside the source
	)
	id := len(e.ID)
	if !e.Named() {
		id = len(e.Source) + number
	}
	return id + len(e.RedeliveryOf) + len(e.Body) + headerBytes(e.Headers) + len(e.ContentType) + len(e.Principal) + len(e.Group) + len(e.Source) + 9*len(e.Parents) + viaBytes(e.Via) + rest
}

// A Log is the end of a group's log as the group record knows it. The zero value is a log without
// entries.
type Log struct {
	// Last is the number of the last entry, and so how many entries were ever appended.
	Last uint64
	// Time is the hybrid time of the last entry.
	Time clock.Hybrid
	// Ended says that the last entry is of kind EntryEnd: nothing can be appended any more.
	Ended bool
	// Until is when the last entry expires. The group record is kept at least until then.
	Until time.Time
}

// MaxChunk is the size from which on a chunk takes no further entry, in bytes. A single entry may
// be larger.
const MaxChunk = 64 << 10

// A Chunk holds consecutive entries of a log, as one commit appended them.
type Chunk struct {
	Group       GroupKey
	Incarnation uint64
	First, Last uint64
	// Expires is when the entries can no longer be read. It is not before that of an earlier chunk
	// of the same incarnation.
	Expires time.Time
	// Data is the encoding of the entries, see package dedup/log. A store does not interpret it.
	Data []byte
}

// A LogRange is a part of a log: the chunks that hold entries after a number, up to another one.
type LogRange struct {
	Group       GroupKey
	Incarnation uint64
	After       uint64
	// Last is the [Log.Last] of a record that Load returned with this incarnation. Such a record is
	// durable, and so are the chunks up to its end: a reader needs no lock against commits that are
	// not.
	Last uint64
	// MaxBytes is how much data is enough, and MaxEntries how many entries are, if it is not 0: no
	// further chunk is read after that. At least one chunk is read if there is one.
	MaxBytes   int
	MaxEntries int
}

// Enough reports whether chunks of the range, with this many bytes of data, are enough.
func (r *LogRange) Enough(chunks []Chunk, bytes int) bool {
	if len(chunks) == 0 {
		return false
	}
	entries := chunks[len(chunks)-1].Last - max(r.After, chunks[0].First-1)
	return bytes >= r.MaxBytes || r.MaxEntries > 0 && entries >= uint64(r.MaxEntries)
}

// A LogReader is a store that can read the logs of groups.
type LogReader interface {
	// ReadLog returns the chunks of a range in the order of their numbers, without expired ones.
	// The first chunk may begin with entries that are not after LogRange.After. Every chunk of the
	// range that is not expired is returned or comes after the last one that is returned. The
	// entries after a returned chunk follow in the next one, unless some between them are expired.
	ReadLog(ctx context.Context, r LogRange) ([]Chunk, error)
}
