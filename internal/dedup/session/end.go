package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/effectively-once/once/internal/record"
)

// endKey is the key of the record that says that a stream is closed. It is not the record of the
// pool, because it is read for every message that is accepted.
func endKey(stream string) record.GroupKey {
	return record.GroupKey{Stream: record.PoolsStream, Group: stream + "/end"}
}

// Closed reports whether [Sessions.EndStream] has begun. A caller that accepts messages asks after
// it has put a message on its queue, and says that the message is accepted only if the stream is
// still open. The end is put on the queues after the stream is closed, so it is behind the message
// then. Otherwise the caller does not know yet: when the message is sent again, its token
// says whether it is before the end.
func (s *Sessions) Closed(ctx context.Context, stream string) (bool, error) {
	groups, err := s.load(ctx, endKey(stream))
	return err == nil && groups[0].Version > 0, err
}

// EndStream ends a stream with a pool: no message is accepted any more. It closes the stream, and
// then puts the end on the queue of each partition, behind the messages that were accepted. It can
// be repeated: a log takes no second end.
func (s *Sessions) EndStream(ctx context.Context, stream string) error {
	if _, ok := s.cfg.Pools[stream]; !ok {
		return fmt.Errorf("end stream: %w", ErrNoPool)
	}
	if err := s.close(ctx, stream); err != nil {
		return fmt.Errorf("end stream: %w", err)
	}
	if err := s.sendEnds(ctx, stream); err != nil {
		return fmt.Errorf("end stream: %w", err)
	}
	return nil
}

func (s *Sessions) close(ctx context.Context, stream string) error {
	return s.repeat(ctx, func() error {
		groups, err := s.load(ctx, endKey(stream))
		if err != nil || groups[0].Version > 0 {
			return err
		}
		e := make(encoder, 0, 16)
		e.number(format, incarnation(s.cfg.Now()))
		return s.write(ctx, groups[0], groups[0], e, never())
	})
}

// sendEnds puts the end on the queue of each partition whose log has none.
func (s *Sessions) sendEnds(ctx context.Context, stream string) error {
	_, _, logs, err := s.loadPool(ctx, stream)
	if err != nil {
		return err
	}
	var errs []error
	for i := range logs {
		if !logs[i].Log.Ended {
			errs = append(errs, s.sendEnd(ctx, stream, uint64(i)))
		}
	}
	return errors.Join(errs...)
}

// ender is the principal of the messages that end the logs. No caller has it, so their identities
// are those of no other message.
const ender = "~end"

func (s *Sessions) sendEnd(ctx context.Context, stream string, partition uint64) error {
	if s.cfg.Enqueue == nil {
		return errNoQueues
	}
	m := record.Message{Principal: ender, Stream: stream, Group: record.InPartition(partition, ""), ID: "end/" + record.PartitionName(partition), End: true}
	if s.cfg.Numbered[stream] {
		m.Source, m.Sequence = m.ID, 1
	}
	if err := s.cfg.Enqueue(ctx, m); err != nil {
		return fmt.Errorf("send end of partition %d: %w", partition, err)
	}
	return nil
}

// loadPool returns the pool of a stream, with all its partitions, and then their logs.
func (s *Sessions) loadPool(ctx context.Context, stream string) (record.Group, pool, []record.Group, error) {
	g, p, err := s.pool(ctx, stream)
	if err != nil {
		return g, p, nil, err
	}
	logs, err := s.partitions(ctx, stream, &p)
	return g, p, logs, err
}

// settle ends the pool if all entries were dealt, and all sessions have processed theirs: also those
// that do not read any more. It reports the sessions that the end waits for.
//
// The pool is loaded before the sessions, and written on condition that it did not change, as in a
// deal. So it is as if each of them had asked for entries.
func (s *Sessions) settle(ctx context.Context, stream string) error {
	return s.repeat(ctx, func() error {
		g, p, logs, err := s.loadPool(ctx, stream)
		if err != nil || p.Ended {
			return err
		}
		d := deal{pool: &p, cfg: s.cfg.Pools[stream], logs: logs, now: s.cfg.Now()}
		if d.renewLogs(); !d.dealtAll() {
			return nil
		}
		if err := s.learn(ctx, stream, &p); err != nil {
			return err
		}
		if p.Ended = d.atEnd(); !p.Ended {
			s.endWaits(ctx, stream, &p)
			return nil
		}
		return s.writePool(ctx, g, &p)
	})
}

// learn notes the cursors of the sessions of a pool that was loaded before, if the pool does not
// know that they have processed everything. That of a closed one is final.
func (s *Sessions) learn(ctx context.Context, stream string, p *pool) error {
	var ids []ID
	for name, m := range p.Members {
		if m.Known < m.last() {
			ids = append(ids, ID{Stream: stream, Name: name})
		}
	}
	states, err := s.states(ctx, ids)
	if err != nil {
		return err
	}
	for i, st := range states {
		if m := p.Members[ids[i].Name]; st.Life == m.Life {
			m.Known = st.Cursor
			p.Members[ids[i].Name] = m
		}
	}
	return nil
}

// writePool writes a pool. The write that ends it carries the effect of the end.
func (s *Sessions) writePool(ctx context.Context, loaded record.Group, p *pool) error {
	next := loaded.Clone()
	to := s.cfg.Pools[loaded.Key.Group].Destinations
	ends := p.Ended && !p.wasEnded && len(to) > 0
	if ends {
		effects := []record.Effect{{
			To: to, ContentType: "application/json", Headers: map[string]string{"once-event": "end"}, Body: []byte(`{"stream":"` + loaded.Key.Group + `"}`),
		}}
		if err := s.triggerEarly(ctx, loaded.Key, effects); err != nil {
			return err
		}
		if err := s.emit(&next, "end", effects); err != nil {
			return err
		}
	}
	if err := s.write(ctx, loaded, next, p.encode(), never()); err != nil || !ends {
		return err
	}
	return s.triggerPending(ctx, &next)
}

// letterUnread makes dead letters of the entries that were returned after the end.
func (s *Sessions) letterUnread(ctx context.Context, stream string) error {
	return s.repeat(ctx, func() error {
		g, p, err := s.pool(ctx, stream)
		if err != nil || len(p.Unread) == 0 {
			return err
		}
		for _, x := range p.Unread {
			why := letter{reason: record.ReasonEnded, detail: "its session was retired after the end of its stream"}
			if err := s.letterSpan(ctx, Partition(stream, x.Part), x, 0, nil, why); err != nil {
				return err
			}
		}
		p.Unread = nil
		return s.writePool(ctx, g, &p)
	})
}
