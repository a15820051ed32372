package session

import (
	"time"

	"github.com/effectively-once/once/internal/record"
)

// spanSize is about how many bytes a span takes in the record of a pool.
const spanSize = 32

// size returns how large the record of the pool is. Each session counts as if it had at least one
// span: so a session that has processed everything can always be dealt one, without a change of the
// size.
func (p *pool) size() int {
	n := len(p.encode())
	for _, m := range p.Members {
		if len(m.Spans) == 0 {
			n += spanSize
		}
	}
	return n
}

// trim forgets the oldest spans of all sessions until the pool is not larger than a bound. It keeps
// what is not processed, as far as the pool knows.
func (p *pool) trim(most, ranges int, now time.Time) {
	for ranges > 0 && p.size() > most {
		ranges /= 2
		for name, m := range p.Members {
			m.drop(ranges, now)
			p.Members[name] = m
		}
	}
}

// dealInBounds repeats a deal that has made the record of the pool too large, and reports whether
// the pool has to be written. The pool first forgets spans of entries that are processed: a consumer
// needs these only if its store was restored from an older copy. If that is not enough, a session
// that the pool does not know is refused. One that it knows continues: it is dealt a single span as
// soon as it has processed everything before.
func (s *Sessions) dealInBounds(loaded *record.Group, large *deal, st *state) (*deal, bool, error) {
	d, err := s.trimmed(loaded, large, st)
	if err != nil {
		return large, false, err
	}
	if write := d.run(st.Cursor, s.cfg.Ranges); d.size() <= s.cfg.MaxPool {
		return d, write, nil
	}
	if d, err = s.trimmed(loaded, large, st); err != nil {
		return large, false, err
	}
	if m, known := d.Members[d.name]; !known || m.Life != st.Life {
		return large, false, ErrPoolFull
	}
	d.single = true
	return d, d.run(st.Cursor, 0), nil
}

// trimmed returns a deal that begins again, on the loaded pool without the spans that it can forget.
func (s *Sessions) trimmed(loaded *record.Group, large *deal, st *state) (*deal, error) {
	p, err := decodePool(loaded)
	if err != nil {
		return nil, err
	}
	for len(p.Parts) < len(large.logs) {
		p.Parts = append(p.Parts, part{})
	}
	if m, ok := p.Members[large.name]; ok && m.Life == st.Life {
		m.Known = st.Cursor
		p.Members[large.name] = m
	}
	p.trim(s.cfg.MaxPool*3/4, s.cfg.Ranges, large.now) // so that not each deal has to do it
	d := *large
	d.pool, d.m = &p, p.member(large.name, st.Life)
	return &d, nil
}
