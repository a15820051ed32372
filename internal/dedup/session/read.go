package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/record"
)

// An Entry is one entry of a session.
type Entry struct {
	// Number counts the entries of this life of the session: 1, 2, 3 …
	Number uint64
	// Group and Offset are its place in a log.
	Group  record.GroupKey
	Offset log.Offset
	// Dead says that the entry is a dead letter: it must be passed without being processed.
	Dead bool
	// End says that this is the end of the pool. Then there is nothing in Encoded.
	End bool
	// Encoded writes the entry for readers, with the Number of the session.
	log.Encoded
}

// maxPage is from what size on a page takes no further entry, in bytes.
const maxPage = 1 << 20

// A Page is a part of a session.
type Page struct {
	// Entries are the next ones, none if there is none yet.
	Entries []Entry
	// Next is the number of the last entry, or the number after which was read.
	Next uint64
	// End says that nothing follows Next.
	End bool
	// LeaseUntil is when the lease ends. A read renews it only with [Config.Alone].
	LeaseUntil time.Time

	size int // of the entries
}

// A Reading asks for entries.
type Reading struct {
	Fence uint64
	// After is the number after which to read, nil for the session's cursor.
	After *uint64
	// Limit is the largest number of entries, at least 1. A page of large entries has fewer.
	Limit int
}

// Read returns the entries after a number. If the session has fewer than asked for, the pool deals
// it more. An entry is returned again until it is committed. It returns a [*FencedError],
// [ErrRetired], an [*ExpiredError] or an [*AheadError].
func (s *Sessions) Read(ctx context.Context, id ID, r Reading) (page Page, err error) {
	if err := s.validate(id); err != nil {
		return page, err
	}
	r.Limit = max(1, r.Limit)
	err = s.repeat(ctx, func() error {
		if id.pooled() {
			page, err = s.readPool(ctx, id, r)
		} else {
			page, err = s.readLog(ctx, id, r)
		}
		return err
	})
	if err != nil {
		return Page{}, fmt.Errorf("read: %w", err)
	}
	return page, nil
}

func (s *Sessions) readPool(ctx context.Context, id ID, r Reading) (Page, error) {
	m, st, ended, err := s.deal(ctx, id, r)
	if err != nil {
		return Page{}, err
	}
	page := s.page(id, &st, r)
	last := m.last()
	switch {
	case page.Next < m.Dropped:
		return Page{}, &ExpiredError{First: m.Dropped + 1}
	case ended && page.Next == last+1:
		page.End = true
		return page, nil
	case page.Next > last:
		return Page{}, &AheadError{Last: last}
	}
	for _, part := range m.find(page.Next, r.Limit) {
		if whole, err := s.readSpan(ctx, id, &st, &page, part); err != nil {
			return Page{}, err
		} else if !whole {
			return page, nil
		}
	}
	if ended && page.Next == last && len(page.Entries) < r.Limit {
		page.Next++
		page.Entries = append(page.Entries, Entry{Number: page.Next, End: true})
		page.End = true
	}
	return page, nil
}

// page returns the page of a read without entries. The consumer is present: its lease is renewed if
// that costs nothing.
func (s *Sessions) page(id ID, st *state, r Reading) Page {
	s.seen(id, st)
	return Page{Next: st.from(r), LeaseUntil: s.leaseOf(id, st)}
}

func (st *state) from(r Reading) uint64 {
	if r.After != nil {
		return *r.After
	}
	return st.Cursor
}

// readSpan adds the entries of a span to a page, and reports whether these are all.
func (s *Sessions) readSpan(ctx context.Context, id ID, st *state, page *Page, from span) (bool, error) {
	key := Partition(id.Stream, from.Part)
	after := log.Offset{Incarnation: from.Incarnation, Number: from.First - 1}
	part, err := log.Read(ctx, s.store, key, after, int(from.len())) //nolint:gosec // not more than the limit
	if expired, ok := errors.AsType[*log.ExpiredError](err); ok {
		if len(page.Entries) > 0 { // the next read says so
			return false, nil
		}
		return false, &ExpiredError{First: page.Next + from.gone(expired) + 1}
	}
	if err != nil {
		return false, err
	}
	page.Entries = slices.Grow(page.Entries, len(part.Entries))
	for i := range part.Entries {
		if page.size >= maxPage {
			return false, nil
		}
		page.add(st, key, from.Incarnation, &part.Entries[i])
	}
	return part.Next.Number == from.Last, nil
}

// gone returns how many of the first entries of a span can't be read any more.
func (s span) gone(e *log.ExpiredError) uint64 {
	if e.First.Incarnation != s.Incarnation {
		return s.len()
	}
	return min(s.len(), e.First.Number+1-min(e.First.Number+1, s.First))
}

func (p *Page) add(st *state, key record.GroupKey, incarnation uint64, x *log.Encoded) {
	p.Next++
	p.size += x.Size()
	p.Entries = append(p.Entries, Entry{
		Number: p.Next, Group: key, Offset: log.Offset{Incarnation: incarnation, Number: x.Number}, Dead: st.Dead.Contains(p.Next), Encoded: x.Renumbered(p.Next),
	})
}
