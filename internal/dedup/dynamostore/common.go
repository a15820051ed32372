package dynamostore

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/dedup/encoding"
	"github.com/effectively-once/once/internal/record"
)

// A common is the part that pending entries share with their neighbours: a batch is one commit of
// one sender, mostly to one destination. It is stored beside the entries, as a list of its changes
// from number to number.
//
// Only commits write the list, under their condition; a Clear leaves it alone. So it may describe
// entries that are gone, but it describes every entry that is stored. Each field is a function of
// its entry alone, so a commit that rewrites the list computes the same values for entries that it
// does not rewrite.
type common struct {
	attempt   string // up to the first dot: the ID of the commit
	principal string
	// of a numbered message, up to its sequence; empty if entries have their own identities
	identity    string
	ahead       int64 // the sequence minus the entry's number
	retention   time.Duration
	to          []string // of the first effect, like contentType; committed if there is one
	contentType string
	committed   time.Time
}

// commonOf returns the common part of an entry; a field that the entry does not determine is as
// before.
func commonOf(p *record.Pending, before common) common {
	c := before
	c.attempt, _, _ = strings.Cut(p.Attempt, ".")
	c.principal, c.retention, c.identity = p.Principal, p.Retention, ""
	if _, _, sequence, ok := record.ParseNumber(p.Identity); ok {
		counting := common{identity: p.Identity[:strings.LastIndex(p.Identity, "/")+1], ahead: int64(sequence - p.Number)} //nolint:gosec // it may wrap around; name wraps it back
		if counting.name(p.Number) == p.Identity {
			c.identity, c.ahead = counting.identity, counting.ahead
		}
	}
	if len(p.Effects) > 0 {
		c.to, c.contentType, c.committed = p.Effects[0].To, p.Effects[0].ContentType, p.Committed
	}
	return c
}

// name returns the identity of a numbered message, computed from its entry's number.
func (c common) name(number uint64) string {
	if c.identity == "" {
		return ""
	}
	return c.identity + strconv.FormatUint(number+uint64(c.ahead), 10) //nolint:gosec // wraps back
}

// A change is the common part of the entries from a number on.
type change struct {
	from uint64
	common
}

// encodeCommons writes the changes for entries in number order. The first change is always written,
// so that no entry can be decoded without the list. The initial values are the attempt that wrote
// the item, and zero for the other fields.
func encodeCommons(pending []record.Pending, attempt string) []byte {
	changes, count := &encoding.Encoder{}, 0
	now := common{attempt: attempt}
	for i := range pending {
		next := commonOf(&pending[i], now)
		if i == 0 || !next.equal(now) {
			writeChange(changes, pending[i].Number, now, next)
			count++
		}
		now = next
	}
	e := &encoding.Encoder{}
	e.List(count)
	return append(e.B, changes.B...)
}

func (c common) equal(other common) bool {
	return c.attempt == other.attempt && c.principal == other.principal && c.identity == other.identity && c.ahead == other.ahead && c.retention == other.retention &&
		slices.Equal(c.to, other.to) && c.contentType == other.contentType && c.committed.Equal(other.committed)
}

// writeChange writes the fields that differ from before, even if they are zero now.
func writeChange(e *encoding.Encoder, from uint64, before, now common) {
	at := e.Object()
	e.UintField(at, 1, from)
	text := func(number uint64, before, now string) {
		if before != now {
			e.Field(at, number)
			e.Text(now)
		}
	}
	text(2, before.attempt, now.attempt)
	text(3, before.principal, now.principal)
	text(4, before.identity, now.identity)
	if before.retention != now.retention {
		e.Field(at, 5)
		e.Int(int64(now.retention))
	}
	if !slices.Equal(before.to, now.to) {
		e.Field(at, 6)
		encoding.WriteTexts(e, now.to)
	}
	text(7, before.contentType, now.contentType)
	if before.ahead != now.ahead {
		e.Field(at, 8)
		e.Int(now.ahead)
	}
	if !before.committed.Equal(now.committed) {
		e.Field(at, 9)
		e.Int(encoding.Seconds(now.committed))
	}
}

func readChange(d *encoding.Decoder, c *change) {
	d.Fields(func(number uint64) bool {
		switch number {
		case 1:
			c.from = d.Uint()
		case 2:
			c.attempt = d.Text()
		case 3:
			c.principal = d.Text()
		case 4:
			c.identity = d.Text()
		case 5:
			c.retention = time.Duration(d.Int())
		case 6:
			c.to = encoding.ReadTexts(d)
		case 7:
			c.contentType = d.Text()
		case 8:
			c.ahead = d.Int()
		case 9:
			c.committed = encoding.FromSeconds(d.Int())
		default:
			return false
		}
		return true
	})
}

// readChanges reads the list.
func readChanges(d *encoding.Decoder, attempt string) []change {
	now := change{common: common{attempt: attempt}}
	return encoding.ListOf(d, func(d *encoding.Decoder, into *change) {
		before := now.from
		if readChange(d, &now); now.from < before {
			d.Fail("what entries have in common is out of order")
		}
		*into = now
	})
}

// commonAt returns the common part of an entry; ok is false if no change covers its number.
func commonAt(changes []change, number uint64) (c common, ok bool) {
	for _, x := range changes {
		if x.from > number {
			break
		}
		c, ok = x.common, true
	}
	return c, ok
}
