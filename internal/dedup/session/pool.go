package session

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// A span is a range of entries of the log of one partition.
type span struct {
	Part, Incarnation uint64
	First, Last       uint64
	// Until is when its last entry has expired at the latest, in Unix milliseconds: when the log
	// had expired as it was when the span was dealt. It is 0 if that is not known.
	Until uint64
}

func (s span) len() uint64 { return s.Last - s.First + 1 }

// follows reports whether s begins where r ends.
func (s span) follows(r span) bool {
	return s.Part == r.Part && s.Incarnation == r.Incarnation && s.First == r.Last+1
}

// expired reports whether no entry of the span can be read any more.
func (s span) expired(now time.Time) bool {
	return s.Until != 0 && s.Until <= uint64(now.UnixMilli())
}

// A part is a partition of a pool.
type part struct {
	// Incarnation is that of the partition's log, and Dealt the last of its entries that was dealt.
	Incarnation, Dealt uint64
	// Owner is the session that the partition belongs to, if the pool deals whole partitions.
	Owner string
}

// A member is a session that the pool has dealt to.
type member struct {
	// Life is that of the session.
	Life uint64
	// Dropped is how many of the session's first numbers have no span any more.
	Dropped uint64
	// Known is the session's cursor when the pool last saw it.
	Known uint64
	// Spans are the entries of the numbers Dropped+1, Dropped+2, …
	Spans []span
}

// last returns the last number that was dealt to the session in this life.
func (m *member) last() uint64 {
	n := m.Dropped
	for _, s := range m.Spans {
		n += s.len()
	}
	return n
}

// first returns the first number whose entry may be readable: those before it have expired.
func (m *member) first(now time.Time) uint64 {
	n := m.Dropped + 1
	for _, s := range m.Spans {
		if !s.expired(now) {
			break
		}
		n += s.len()
	}
	return n
}

// drop forgets the session's oldest spans, but counts their numbers: those that have expired, and
// those beyond a bound. It keeps what the session has not processed: an entry that has expired
// unread is reported, and a person decides.
func (m *member) drop(ranges int, now time.Time) {
	for len(m.Spans) > 0 && m.Dropped+m.Spans[0].len() <= m.Known && (len(m.Spans) > ranges || m.Spans[0].expired(now)) {
		m.Dropped += m.Spans[0].len()
		m.Spans = m.Spans[1:]
	}
}

// A pool is the content of a pool's record.
type pool struct {
	Parts   []part
	Members map[string]member
	// Returned are entries of retired sessions, which are dealt before others. Unread are those
	// that were returned after the end: they are dead letters.
	Returned, Unread []span
	// Ended says that all entries were dealt and all sessions have processed theirs.
	Ended bool

	wasEnded bool // when it was loaded
}

func (p *pool) encode() []byte {
	e := make(encoder, 0, 256)
	e.number(format, uint64(len(p.Parts)))
	for _, x := range p.Parts {
		e.number(x.Incarnation, x.Dealt)
		e.text(x.Owner)
	}
	e.number(uint64(len(p.Members)))
	for _, name := range slices.Sorted(maps.Keys(p.Members)) {
		m := p.Members[name]
		e.text(name)
		e.number(m.Life, m.Dropped, m.Known)
		e.spans(m.Spans)
	}
	e.spans(p.Returned)
	e.spans(p.Unread)
	e.flag(p.Ended)
	return e
}

// decodePool returns the pool of a record. A record that does not exist has an empty pool.
func decodePool(g *record.Group) (pool, error) {
	p := pool{Members: map[string]member{}}
	if g.Version == 0 {
		return p, nil
	}
	d := decoder{b: g.State}
	d.bad = d.number() != format
	for range d.count() {
		p.Parts = append(p.Parts, part{d.number(), d.number(), d.text()})
	}
	for range d.count() {
		name := d.text()
		p.Members[name] = member{Life: d.number(), Dropped: d.number(), Known: d.number(), Spans: d.spans()}
	}
	p.Returned, p.Unread, p.Ended = d.spans(), d.spans(), d.flag()
	p.wasEnded = p.Ended
	return p, d.done(g.Key)
}

// member returns the part of a session's life in the pool; a zero value with the life if the pool
// has dealt nothing to it.
func (p *pool) member(name string, life uint64) member {
	if m, ok := p.Members[name]; ok && m.Life == life {
		return m
	}
	return member{Life: life}
}

// bounds returns the lowest and the highest cursor that a session may have.
func (p *pool) bounds(name string, life uint64) (lowest, highest uint64) {
	m := p.member(name, life)
	if highest = m.last(); p.Ended {
		highest++ // the end
	}
	return m.Dropped, highest
}

// find returns the spans of the numbers after one, at most limit numbers.
func (m *member) find(after uint64, limit int) (out []span) {
	number := m.Dropped   // before the span
	left := uint64(limit) //nolint:gosec // not negative
	for _, s := range m.Spans {
		end := number + s.len()
		if end > after && left > 0 {
			s.First += max(after, number) - number
			s.Last = min(s.Last, s.First+left-1)
			left -= s.len()
			out = append(out, s)
		}
		number = end
	}
	return out
}

// returnUnread takes everything of a session's life that is after its cursor, and no dead letter,
// back to be dealt again, and forgets the session. After the end those entries are dead letters.
func (p *pool) returnUnread(name string, life, cursor uint64, dead record.Ranges) {
	m, ok := p.Members[name]
	if !ok || m.Life != life {
		return
	}
	to := &p.Returned
	if p.Ended {
		to = &p.Unread
	}
	number := m.Dropped
	for _, s := range m.Spans {
		for n := s.First + min(s.len(), max(cursor, number)-number); n <= s.Last; n++ {
			if !dead.Contains(number + n - s.First + 1) {
				*to = add(*to, span{s.Part, s.Incarnation, n, n, s.Until})
			}
		}
		number += s.len()
	}
	p.Returned = merged(p.Returned)
	for i := range p.Parts {
		if p.Parts[i].Owner == name {
			p.Parts[i].Owner = ""
		}
	}
	delete(p.Members, name)
}

// merged returns spans in the order of their logs, as few as possible.
func merged(list []span) []span {
	slices.SortFunc(list, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.Part, b.Part), cmp.Compare(a.Incarnation, b.Incarnation), cmp.Compare(a.First, b.First))
	})
	var out []span
	for _, s := range list {
		out = add(out, s)
	}
	return out
}

// add appends a span to a list, or extends the last one.
func add(list []span, s span) []span {
	if n := len(list); n > 0 && s.follows(list[n-1]) {
		list[n-1].Last = s.Last
		if list[n-1].Until = max(s.Until, list[n-1].Until); s.Until == 0 {
			list[n-1].Until = 0
		}
		return list
	}
	return append(list, s)
}
