package log

import (
	"context"
	"fmt"

	"github.com/effectively-once/once/internal/record"
)

// Store is the part of a store that reading needs.
type Store interface {
	record.LogReader
	Load(ctx context.Context, groups []record.GroupKey, tokens []record.TokenKey) ([]record.Group, []record.Token, error)
}

// A Page is a part of a log.
type Page struct {
	// Entries are the next ones after the position, none if there is none yet.
	Entries []Encoded
	// Next is the position after them.
	Next Offset
	// Log is the end of the log when it was read.
	Log record.Log
	// End says that the last entry of an ended log is before Next: nothing will follow.
	End bool
}

// An ExpiredError says that a reader can't continue at its position without missing entries.
type ExpiredError struct {
	// First is the position before the first entry that can still be read. It is the zero value if
	// the group has no log any more.
	First Offset
	// Again says that the position belongs to an earlier life of the group.
	Again bool
	// Restored says that the system was put back to an older copy after that position: entries that
	// the reader has seen may be gone, and none of those that came since has been missed.
	Restored bool
}

func (e *ExpiredError) Error() string {
	switch {
	case e.First == Offset{}:
		return "the log of this group has expired"
	case e.Restored:
		return "the system was restored from an older copy here: entries that were read may be gone; the log goes on after " + e.First.String()
	case e.Again:
		return "the log of this group has begun again; it is kept from " + e.First.String()
	default:
		return "entries after this offset have expired; the log is kept from " + e.First.String()
	}
}

// An AheadError says that a position is after the end of a log. This happens to a reader if the
// system was restored from an older copy.
type AheadError struct {
	// Last is the position at the end of the log.
	Last Offset
}

func (e *AheadError) Error() string { return "the log ends before this offset, at " + e.Last.String() }

// maxRead is how many bytes of a log one page holds, about.
const maxRead = 1 << 20

// Read returns the entries of a log after a position, at most limit and about 1 MB. It returns an
// [*ExpiredError] or an [*AheadError] if it can't continue there. A group without a record has an
// empty log.
func Read(ctx context.Context, s Store, key record.GroupKey, after Offset, limit int) (Page, error) {
	groups, _, err := s.Load(ctx, []record.GroupKey{key}, nil)
	if err != nil {
		return Page{}, fmt.Errorf("read log: %w", err)
	}
	g := &groups[0]
	switch {
	case g.Version == 0 && after == Offset{}:
		return Page{}, nil
	case g.Version == 0:
		return Page{}, &ExpiredError{}
	case after != Offset{} && after.Incarnation != g.Incarnation:
		first, err := first(ctx, s, g)
		if err != nil {
			return Page{}, err
		}
		return Page{}, &ExpiredError{First: first, Again: true}
	case after.Number > g.Log.Last:
		return Page{}, &AheadError{Last: Offset{g.Incarnation, g.Log.Last}}
	}
	return read(ctx, s, g, after, limit)
}

// End returns an empty page at the end of a log.
func End(ctx context.Context, s Store, key record.GroupKey) (Page, error) {
	groups, _, err := s.Load(ctx, []record.GroupKey{key}, nil)
	if err != nil {
		return Page{}, fmt.Errorf("read end of log: %w", err)
	}
	g := &groups[0]
	if g.Version == 0 {
		return Page{}, nil
	}
	return Page{Next: Offset{g.Incarnation, g.Log.Last}, Log: g.Log, End: g.Log.Ended}, nil
}

// Start returns the position before the first entry of a log that is kept. It is the zero value as
// long as the log has never had an entry.
func Start(ctx context.Context, s Store, key record.GroupKey) (Offset, error) {
	groups, _, err := s.Load(ctx, []record.GroupKey{key}, nil)
	if err != nil {
		return Offset{}, fmt.Errorf("read start of log: %w", err)
	}
	if groups[0].Log.Last == 0 {
		return Offset{}, nil
	}
	return first(ctx, s, &groups[0])
}

// first returns the position before the first entry that is kept.
func first(ctx context.Context, s Store, g *record.Group) (Offset, error) {
	chunks, err := s.ReadLog(ctx, record.LogRange{Group: g.Key, Incarnation: g.Incarnation, Last: g.Log.Last, MaxEntries: 1})
	if err != nil {
		return Offset{}, fmt.Errorf("read log: %w", err)
	}
	if len(chunks) == 0 {
		return Offset{g.Incarnation, g.Log.Last}, nil
	}
	return Offset{g.Incarnation, chunks[0].First - 1}, nil
}

func read(ctx context.Context, s Store, g *record.Group, after Offset, limit int) (Page, error) {
	page := Page{Next: Offset{g.Incarnation, after.Number}, Log: g.Log}
	if after.Number == g.Log.Last {
		page.End = g.Log.Ended
		return page, nil
	}
	chunks, err := s.ReadLog(ctx, record.LogRange{Group: g.Key, Incarnation: g.Incarnation, After: after.Number, Last: g.Log.Last, MaxBytes: maxRead, MaxEntries: limit})
	if err != nil {
		return Page{}, fmt.Errorf("read log: %w", err)
	}
	kept := g.Log.Last + 1 // the first that is kept of those after the position
	if len(chunks) > 0 {
		kept = min(max(chunks[0].First, after.Number+1), kept)
	}
	if kept > after.Number+1 && after != (Offset{}) {
		restored := record.Jumps(after.Number, kept)
		missed := true
		if restored {
			if missed, err = forgotten(ctx, s, g, after.Number); err != nil {
				return Page{}, err
			}
		}
		if missed {
			return Page{}, &ExpiredError{First: Offset{g.Incarnation, kept - 1}, Restored: restored}
		}
	}
	page.Next.Number = kept - 1
	if len(chunks) > 0 {
		available := min(g.Log.Last, chunks[len(chunks)-1].Last) - min(g.Log.Last, page.Next.Number)
		page.Entries = make([]Encoded, 0, min(uint64(limit), available)) //nolint:gosec // not negative
	}
	for _, chunk := range chunks {
		// The chunks between these two have expired meanwhile. The next read says so.
		if chunk.First > page.Next.Number+1 {
			break
		}
		// Entries after the end that was loaded may belong to a commit that is not durable yet.
		upTo := min(g.Log.Last, page.Next.Number+uint64(limit-len(page.Entries))) //nolint:gosec // not negative
		if page.Entries, err = appendEntries(page.Entries, chunk, page.Next.Number, upTo); err != nil {
			return Page{}, err
		}
		if n := len(page.Entries); n > 0 {
			page.Next.Number = page.Entries[n-1].Number
		}
		if len(page.Entries) == limit || page.Next.Number == g.Log.Last {
			break
		}
	}
	page.End = g.Log.Ended && page.Next.Number >= g.Log.Last
	return page, nil
}

// forgotten reports whether a log does not have the entry of a number. A reader that is at the last
// entry before a restore has missed nothing; one that is further has read entries that are gone.
func forgotten(ctx context.Context, s Store, g *record.Group, number uint64) (bool, error) {
	chunks, err := s.ReadLog(ctx, record.LogRange{Group: g.Key, Incarnation: g.Incarnation, After: number - 1, Last: number, MaxEntries: 1})
	if err != nil {
		return false, fmt.Errorf("read log: %w", err)
	}
	return len(chunks) == 0 || chunks[0].First > number || chunks[0].Last < number, nil
}
