package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// tellEvery is the time between two reports that the end of a stream waits for sessions.
const tellEvery = time.Minute

// endWaits reports the sessions of a pool that have not processed all of their entries, if nothing
// else keeps the stream from its end. It does so once a minute.
func (s *Sessions) endWaits(ctx context.Context, stream string, p *pool) {
	now := s.cfg.Now()
	s.mu.Lock()
	told := now.Sub(s.told[stream]) < tellEvery
	if !told {
		s.told[stream] = now
	}
	s.mu.Unlock()
	if told {
		return
	}
	count := 0
	for _, name := range slices.Sorted(maps.Keys(p.Members)) {
		if m := p.Members[name]; m.Known < m.last() {
			if count++; count == 1 {
				s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "the end of a stream waits for a session", slog.String("stream", stream), slog.String("session", name), slog.Uint64("cursor", m.Known), slog.Uint64("last", m.last()))
			}
		}
	}
	s.observe(record.EventEndWaits, stream, count)
}

// Late reports the logs of pools whose oldest unread entry has waited for more than half of the time
// for which it is kept. It reads one entry of each partition that has unread ones. Sweep does the
// same for a session of the log of one group.
func (s *Sessions) Late(ctx context.Context) error {
	var errs []error
	for _, stream := range slices.Sorted(maps.Keys(s.cfg.Pools)) {
		if err := s.lateInPool(ctx, stream); err != nil {
			errs = append(errs, fmt.Errorf("look for late entries of %s: %w", stream, err))
		}
	}
	return errors.Join(errs...)
}

func (s *Sessions) lateInPool(ctx context.Context, stream string) error {
	_, p, logs, err := s.loadPool(ctx, stream)
	if err != nil || p.Ended {
		return err
	}
	d := deal{pool: &p, cfg: s.cfg.Pools[stream], logs: logs, now: s.cfg.Now()}
	d.renewLogs()
	late, err := s.countLate(ctx, &d)
	if err != nil || late == 0 {
		return err
	}
	// The pool may not know yet that these are processed.
	if err := s.learn(ctx, stream, &p); err != nil {
		return err
	}
	if late, err = s.countLate(ctx, &d); err == nil && late > 0 {
		s.unreadLate(ctx, stream, late, slog.String("stream", stream))
	}
	return err
}

// countLate returns how many partitions have late entries.
func (s *Sessions) countLate(ctx context.Context, d *deal) (late int, err error) {
	for i := range d.Parts {
		number := d.oldestUnread(uint64(i))
		if number == 0 {
			continue
		}
		is, err := s.isLate(ctx, &d.logs[i], number-1)
		if err != nil {
			return 0, err
		}
		if is {
			late++
		}
	}
	return late, nil
}

// oldestUnread returns the number of the first entry of a partition's log that no session has
// processed, as far as the pool knows; 0 if all are processed.
func (d *deal) oldestUnread(number uint64) uint64 {
	oldest := uint64(0)
	add := func(n uint64) {
		if oldest == 0 || n < oldest {
			oldest = n
		}
	}
	p := d.Parts[number]
	if d.left(int(number)) > 0 { //nolint:gosec // at most 256
		add(p.Dealt + 1)
	}
	for _, s := range d.Returned {
		if s.Part == number && s.Incarnation == p.Incarnation {
			add(s.First)
		}
	}
	for _, m := range d.Members {
		at := m.Dropped
		for _, s := range m.Spans {
			if s.Part == number && s.Incarnation == p.Incarnation && at+s.len() > m.Known {
				add(s.First + max(at, m.Known) - at)
			}
			at += s.len()
		}
	}
	return oldest
}

// lateInLog reports an entry of the log of one group that waits for a session for long.
func (s *Sessions) lateInLog(ctx context.Context, id ID) error {
	if id.pooled() {
		return nil
	}
	_, st, err := s.session(ctx, id)
	if err != nil || st.Closed || st.Incarnation == 0 {
		return err
	}
	groups, err := s.load(ctx, id.logKey())
	if err != nil || groups[0].Incarnation != st.Incarnation {
		return err
	}
	late, err := s.isLate(ctx, &groups[0], st.Start+st.Cursor)
	if err != nil {
		return fmt.Errorf("look for late entries: %w", err)
	}
	if late {
		s.unreadLate(ctx, id.Stream, 1, id.attrs()...)
	}
	return nil
}

// isLate reports whether the entry of a log after a number has waited for more than half of its
// time. One that has expired has.
func (s *Sessions) isLate(ctx context.Context, g *record.Group, after uint64) (bool, error) {
	retain := s.cfg.Retain[g.Key.Stream]
	if retain == 0 || after >= g.Log.Last {
		return false, nil
	}
	chunks, err := s.store.ReadLog(ctx, record.LogRange{Group: g.Key, Incarnation: g.Incarnation, After: after, Last: g.Log.Last, MaxEntries: 1})
	if err != nil {
		return false, fmt.Errorf("read log: %w", err)
	}
	return len(chunks) == 0 || chunks[0].First > after+1 || chunks[0].Expires.Sub(s.cfg.Now()) < retain/2, nil
}

// unreadLate reports logs with late entries.
func (s *Sessions) unreadLate(ctx context.Context, stream string, logs int, attrs ...slog.Attr) {
	s.observe(record.EventUnreadLate, stream, logs)
	s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "unread entries have waited for half of the time for which they are kept", attrs...)
}
