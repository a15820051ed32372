package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/record"
)

// A letter says why entries become dead letters.
type letter struct {
	reason record.Reason
	detail string
	// session is the name of the session that had the entries; empty if they were returned.
	session string
}

// deadLetter puts the entries of a session's numbers after one, up to another one, on the
// dead-letter queue, except those that are marked already. It comes before the mark: a process that
// dies between the two has made a letter too many, and its repetition makes the same one again.
func (s *Sessions) deadLetter(ctx context.Context, id ID, st *state, after, upTo uint64, why letter) error {
	why.session = id.Name
	if !id.pooled() {
		part := span{Incarnation: st.Incarnation, First: st.Start + after + 1, Last: st.Start + upTo}
		return s.letterSpan(ctx, id.logKey(), part, after, st.Dead, why)
	}
	_, p, err := s.pool(ctx, id.Stream)
	if err != nil {
		return err
	}
	m := p.member(id.Name, st.Life)
	// Numbers that the pool has dropped have no entries any more.
	after = min(upTo, max(after, m.Dropped))
	for _, part := range m.find(after, int(upTo-after)) { //nolint:gosec // not more than were dealt
		if err := s.letterSpan(ctx, Partition(id.Stream, part.Part), part, after, st.Dead, why); err != nil {
			return err
		}
		after += part.len()
	}
	return nil
}

// skip puts the entries that a commit skips on the dead-letter queue, and marks them: a consumer
// whose own store has a lower number must not process them after all.
func (s *Sessions) skip(ctx context.Context, id ID, st *state, c *Commit) error {
	if !c.sent {
		why := letter{reason: record.ReasonSkipped, detail: cmp.Or(record.RejectText(c.Detail), "its consumer has skipped it")}
		if err := s.deadLetter(ctx, id, st, c.From, c.To, why); err != nil {
			return err
		}
		c.sent = true
	}
	st.Dead = st.Dead.Add(c.From+1, c.To)
	return nil
}

// letterSpan puts the entries of a span on the dead-letter queue. The first of them has the number
// after one in its session; those among dead are left out, and so are those that the log has
// forgotten.
func (s *Sessions) letterSpan(ctx context.Context, key record.GroupKey, x span, after uint64, dead record.Ranges, why letter) error {
	if s.cfg.Queues == nil {
		return errNoQueues
	}
	for at := x.First - 1; at < x.Last; {
		page, err := log.Read(ctx, s.store, key, log.Offset{Incarnation: x.Incarnation, Number: at}, int(x.Last-at)) //nolint:gosec // not more than were dealt
		if expired, ok := errors.AsType[*log.ExpiredError](err); ok {
			if expired.First.Incarnation != x.Incarnation || expired.First.Number >= x.Last {
				return nil
			}
			at = expired.First.Number
			continue
		}
		if err != nil {
			return fmt.Errorf("read dead letters: %w", err)
		}
		var refused []record.Refused
		for i := range page.Entries {
			e, err := page.Entries[i].Entry()
			if err != nil {
				return err
			}
			number := after + e.Number - x.First + 1
			if e.Kind != record.EntryMessage || dead.Contains(number) {
				continue
			}
			r := record.Refused{Message: s.redriven(key, x.Incarnation, &e), Reason: why.reason, Detail: why.detail}
			if why.session != "" {
				r.Session, r.Number = why.session, number
			}
			refused = append(refused, r)
		}
		if len(refused) > 0 {
			if err := s.cfg.Queues.DeadLetter(ctx, refused); err != nil {
				return fmt.Errorf("dead-letter entries: %w", err)
			}
		}
		if len(page.Entries) == 0 {
			return nil
		}
		at = page.Next.Number
	}
	return nil
}

// redriven returns the message of a dead letter. In a stream with a pool it has an identity of its
// own, which names the place of the entry in its log: if it is redriven, it is appended and dealt
// again, once for all letters of the entry, and names the first entry of the message. The message
// of another stream keeps its identity, because its handler has run: redriven, it is a duplicate.
func (s *Sessions) redriven(key record.GroupKey, incarnation uint64, e *record.Entry) record.Message {
	m := record.Message{
		Principal: e.Principal, Stream: key.Stream, Group: key.Group, ID: e.ID, Source: e.Source, Epoch: e.Epoch, Sequence: e.Sequence,
		ContentType: e.ContentType, Headers: e.Headers, Body: e.Body,
	}
	if _, ok := s.cfg.Pools[key.Stream]; !ok {
		return m
	}
	m.Group, m.Source, m.Epoch, m.Sequence = e.Group, "", 0, 0
	m.RedeliveryOf = cmp.Or(e.RedeliveryOf, e.ID)
	m.ID = "dead/" + key.Group + "/" + log.Offset{Incarnation: incarnation, Number: e.Number}.String()
	if n := s.cfg.Restores.Before(e.Time.Time()); n > 0 { // a lost entry may have had this offset
		m.ID += "/" + strconv.FormatUint(n, 10)
	}
	if s.cfg.Numbered[key.Stream] {
		m.Group, m.Source, m.Sequence = "", m.ID, 1
	}
	return m
}
