package dynamostore

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/stored"
)

// A common is what pending entries have in common with their neighbours: a batch is one commit of one sender, mostly to one destination. It is kept beside the entries, as a list of
// its changes from number to number, and only commits write it, on their condition; a Clear leaves it alone. So it may tell of entries that are gone, never too little of those
// that are there. Each field is a function of its entry alone: whoever writes the list anew finds the same for entries that stay as they are stored.
type common struct {
	attempt     string // up to the first dot: the commit's
	principal   string
	identity    string // of a numbered message, up to its sequence; empty where entries have their own
	ahead       int64  // of its entry's number is the sequence
	retention   time.Duration
	to          []string // of the first effect, as the next
	contentType string
}

// commonOf gives an entry's; where the entry has nothing to say, it is as before.
func commonOf(p *record.Pending, before common) common {
	c := before
	c.attempt, _, _ = strings.Cut(p.Attempt, ".")
	c.principal, c.retention, c.identity = p.Principal, p.Retention, ""
	if _, _, sequence, ok := record.ParseNumber(p.Identity); ok {
		counting := common{identity: p.Identity[:strings.LastIndex(p.Identity, "/")+1], ahead: int64(sequence - p.Number)} //nolint:gosec // it wraps, and back
		if counting.name(p.Number) == p.Identity {
			c.identity, c.ahead = counting.identity, counting.ahead
		}
	}
	if len(p.Effects) > 0 {
		c.to, c.contentType = p.Effects[0].To, p.Effects[0].ContentType
	}
	return c
}

// name is the identity of a numbered message by its entry's number.
func (c common) name(number uint64) string {
	if c.identity == "" {
		return ""
	}
	return c.identity + strconv.FormatUint(number+uint64(c.ahead), 10) //nolint:gosec // as it was wrapped
}

// A change is what entries from a number on have in common.
type change struct {
	from uint64
	common
}

// encodeCommons writes the changes of entries in number order. The first is always there, so that no entry can be read without the list. What it does not say is from the attempt that wrote the
// item, and else nothing.
func encodeCommons(pending []record.Pending, attempt string) []byte {
	changes, count := &stored.Encoder{}, 0
	now := common{attempt: attempt}
	for i := range pending {
		next := commonOf(&pending[i], now)
		if i == 0 || !next.equal(now) {
			writeChange(changes, pending[i].Number, now, next)
			count++
		}
		now = next
	}
	e := &stored.Encoder{}
	e.List(count)
	return append(e.B, changes.B...)
}

func (c common) equal(other common) bool {
	return c.attempt == other.attempt && c.principal == other.principal && c.identity == other.identity && c.ahead == other.ahead && c.retention == other.retention &&
		slices.Equal(c.to, other.to) && c.contentType == other.contentType
}

// writeChange writes what is other than before, also where it is nothing now.
func writeChange(e *stored.Encoder, from uint64, before, now common) {
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
		stored.WriteTexts(e, now.to)
	}
	text(7, before.contentType, now.contentType)
	if before.ahead != now.ahead {
		e.Field(at, 8)
		e.Int(now.ahead)
	}
}

func readChange(d *stored.Decoder, c *change) {
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
			c.to = stored.ReadTexts(d)
		case 7:
			c.contentType = d.Text()
		case 8:
			c.ahead = d.Int()
		default:
			return false
		}
		return true
	})
}

// readChanges reads the list.
func readChanges(d *stored.Decoder, attempt string) []change {
	now := change{common: common{attempt: attempt}}
	return stored.ListOf(d, func(d *stored.Decoder, into *change) {
		before := now.from
		if readChange(d, &now); now.from < before {
			d.Fail("what entries have in common is out of order")
		}
		*into = now
	})
}

// commonAt gives what an entry has in common with others; ok is false where nothing tells.
func commonAt(changes []change, number uint64) (c common, ok bool) {
	for _, x := range changes {
		if x.from > number {
			break
		}
		c, ok = x.common, true
	}
	return c, ok
}
