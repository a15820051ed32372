package session

import (
	"context"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// A deal is one session's request to the pool.
type deal struct {
	*pool
	cfg    Pool
	name   string
	logs   []record.Group // of the partitions
	now    time.Time
	wants  uint64 // entries that may still be dealt
	single bool   // at most one span may be dealt, to a session that has processed everything
	m      member
}

// deal returns the session's part in the pool, after the pool has dealt it more entries if fewer
// than limit follow the number after.
//
// The pool is loaded before the session, and written on condition that it did not change. The pool
// is written after every closing of a session. So if the session is closed when the entries are
// dealt, either that write comes first and the condition fails, or it takes these entries back.
func (s *Sessions) deal(ctx context.Context, id ID, r Reading) (m member, st state, ended bool, err error) {
	turn, taken := s.turns[id.Stream], false
	for {
		over := turn.over.Load()
		loaded, p, err := s.pool(ctx, id.Stream)
		if err != nil {
			return m, st, false, err
		}
		_, st, err = s.held(ctx, id, r.Fence)
		if err == nil {
			err = s.checkLife(&st)
		}
		if err != nil {
			return m, st, false, err
		}
		m = p.member(id.Name, st.Life)
		if last := m.last(); p.Ended || last >= st.from(r)+uint64(r.Limit) { //nolint:gosec // not negative
			return m, st, p.Ended, nil
		}
		if !taken {
			if err := turn.take(ctx); err != nil {
				return m, st, false, err
			}
			defer turn.leave()
			if taken = true; turn.over.Load() != over { // another caller may have changed the pool
				continue
			}
		}
		d, err := s.dealMore(ctx, id, loaded, &p, &st)
		return d.m, st, d.Ended, err
	}
}

// dealMore deals entries to a session, and writes the pool if it has changed.
func (s *Sessions) dealMore(ctx context.Context, id ID, loaded record.Group, p *pool, st *state) (*deal, error) {
	logs, err := s.partitions(ctx, id.Stream, p)
	if err != nil {
		return &deal{pool: p}, err
	}
	d := s.newDeal(id, p, st, logs)
	write := d.run(st.Cursor, s.cfg.Ranges)
	if write && d.size() > s.cfg.MaxPool {
		if d, write, err = s.dealInBounds(&loaded, d, st); err != nil {
			return d, err
		}
	}
	if !write {
		return d, nil
	}
	return d, s.writePool(ctx, loaded, d.pool)
}

func (s *Sessions) newDeal(id ID, p *pool, st *state, logs []record.Group) *deal {
	return &deal{pool: p, cfg: s.cfg.Pools[id.Stream], name: id.Name, m: p.member(id.Name, st.Life), logs: logs, now: s.cfg.Now()}
}

// partitions returns the records of the partitions of a pool, and adds new ones to the pool.
func (s *Sessions) partitions(ctx context.Context, stream string, p *pool) ([]record.Group, error) {
	for len(p.Parts) < max(1, s.cfg.Pools[stream].Partitions) {
		p.Parts = append(p.Parts, part{})
	}
	keys := make([]record.GroupKey, len(p.Parts))
	for i := range keys {
		keys[i] = Partition(stream, uint64(i))
	}
	return s.load(ctx, keys...)
}

// run changes the pool for a session at a cursor. It reports whether the pool has to be written.
func (d *deal) run(cursor uint64, ranges int) bool {
	window := d.cfg.Window
	if window == 0 {
		window = 1000
	}
	before, last := d.m.Known, d.m.last()
	d.m.Known = cursor
	if d.wants = window - min(window, last-min(last, cursor)); d.single && cursor < last {
		d.wants = 0
	}
	d.renewLogs()
	d.returned()
	for i, ok := d.next(); ok && d.wants > 0; i, ok = d.next() {
		d.fromLog(i)
	}
	d.m.drop(ranges, d.now)
	dealt := d.m.last() > last
	if dealt || d.m.Life == d.Members[d.name].Life {
		d.Members[d.name] = d.m
	}
	d.Ended = d.atEnd()
	// What is known is written with the next range. Without one it matters only for the end, and
	// for partitions that others wait for.
	return dealt || d.Ended || before != cursor && (d.cfg.ByPartition || d.dealtAll())
}

// renewLogs begins again with the logs that have begun again.
func (d *deal) renewLogs() {
	for i := range d.Parts {
		if g := &d.logs[i]; g.Version > 0 && g.Incarnation != d.Parts[i].Incarnation {
			d.Parts[i].Incarnation, d.Parts[i].Dealt = g.Incarnation, 0
		}
	}
}

// returned deals entries of retired sessions.
func (d *deal) returned() {
	var rest []span
	for _, s := range d.Returned {
		if d.wants == 0 || !d.may(s.Part) {
			rest = append(rest, s)
			continue
		}
		mine := s
		mine.Last = min(s.Last, s.First+d.wants-1)
		d.take(mine)
		if s.First = mine.Last + 1; s.First <= s.Last {
			rest = append(rest, s)
		}
	}
	d.Returned = rest
}

// take deals a span to the session.
func (d *deal) take(s span) {
	if d.cfg.ByPartition {
		d.Parts[s.Part].Owner = d.name
	}
	d.m.Spans = add(d.m.Spans, s)
	if d.wants -= s.len(); d.single {
		d.wants = 0
	}
}

// left returns how many entries of a partition's log are not dealt yet. The end of a log is not
// dealt.
func (d *deal) left(i int) uint64 {
	g := &d.logs[i]
	if g.Version == 0 {
		return 0
	}
	last := g.Log.Last
	if g.Log.Ended {
		last--
	}
	return last - min(last, d.Parts[i].Dealt)
}

// next returns the partition with the most entries to deal.
func (d *deal) next() (best int, ok bool) {
	most := uint64(0)
	for i := range d.Parts {
		if n := d.left(i); n > most && d.may(uint64(i)) {
			best, most = i, n
		}
	}
	return best, most > 0
}

func (d *deal) fromLog(i int) {
	p := &d.Parts[i]
	n := min(d.wants, d.left(i))
	until := uint64(0)
	if at := d.logs[i].Log.Until; !at.IsZero() {
		until = uint64(at.UnixMilli())
	}
	d.take(span{uint64(i), p.Incarnation, p.Dealt + 1, p.Dealt + n, until}) //nolint:gosec // not negative
	p.Dealt += n
}

// may reports whether the session may have entries of a partition. If the pool deals whole
// partitions, it may take one that has no owner, or whose owner has processed everything of it, as
// far as the pool knows, and has at least two partitions more.
func (d *deal) may(number uint64) bool {
	owner := d.Parts[number].Owner
	return !d.cfg.ByPartition || owner == "" || owner == d.name ||
		d.drained(number, owner) && d.owned(owner) >= d.owned(d.name)+2
}

// drained reports whether a session has processed all entries of a partition that were dealt to it.
func (d *deal) drained(number uint64, owner string) bool {
	m := d.Members[owner]
	at := m.Dropped
	for _, s := range m.Spans {
		if at += s.len(); s.Part == number && at > m.Known {
			return false
		}
	}
	return true
}

func (d *deal) owned(name string) (n int) {
	for i := range d.Parts {
		if d.Parts[i].Owner == name {
			n++
		}
	}
	return n
}

// dealtAll reports whether every log has ended, and all entries were dealt.
func (d *deal) dealtAll() bool {
	for i := range d.Parts {
		if !d.logs[i].Log.Ended || d.left(i) > 0 {
			return false
		}
	}
	return len(d.Returned) == 0
}

// atEnd reports whether all entries were dealt, and all sessions have processed theirs: retiring
// one of them can return nothing any more.
func (d *deal) atEnd() bool {
	if !d.dealtAll() {
		return false
	}
	for _, m := range d.Members {
		if m.Known < m.last() {
			return false
		}
	}
	return true
}
