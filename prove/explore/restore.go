package explore

import (
	"fmt"
	"slices"

	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/record"
)

// backupPart is the last copy of the store, and the restores until now.
type backupPart struct {
	id    int32
	store *storePart // nil if there is no copy
	// tokens is the store when its tokens were copied, until all other records are copied too.
	tokens *storePart
	// queues have the messages that were being processed too. It is nil if the copy has no queues.
	queues   *queuesPart
	applied  []string
	log      []committed
	restores record.Restores
	// stamps are those that the copy has.
	stamps record.Restores
}

func (w *world) backupOf(p backupPart) *backupPart {
	ids := [3]int32{-1, -1, -1}
	if p.store != nil {
		ids[0] = p.store.id
	}
	if p.tokens != nil {
		ids[1] = p.tokens.id
	}
	if p.queues != nil {
		ids[2] = p.queues.id
	}
	return w.backups.one(keyOf(ids, p.applied, p.log, p.restores, p.stamps), func(id int32) *backupPart {
		p.id = id
		return &p
	})
}

// backUp adds the steps in which the store is copied, or put back to the copy.
func (w *world) backUp(s *state, out []step) []step {
	copied := backupPart{store: s.store, applied: s.past.applied, log: s.past.log, restores: s.backup.restores, stamps: s.backup.restores}
	switch tokens := s.backup.tokens; {
	case tokens != nil:
		copied.store = w.storeOf(s.store.store.WithTokens(tokens.store))
		out = append(out, step{text: "all other records are copied", next: w.backedUp(s, copied)})
	case s.left[copies] > 0 && w.scenario.Apart:
		copied = backupPart{tokens: s.store, restores: s.backup.restores, stamps: s.backup.restores}
		out = append(out, step{text: "the tokens are copied", next: w.backedUp(s, copied).spend(copies)})
	case s.left[copies] > 0:
		if w.scenario.Whole {
			copied.queues = w.returned(s)
		}
		out = append(out, step{text: "the store is copied", next: w.backedUp(s, copied).spend(copies)})
	}
	if s.left[restores] > 0 && s.backup.store != nil {
		out = append(out, step{text: "the system is stopped and restored, and everything is sent again", next: w.restore(s)})
	}
	return out
}

func (w *world) backedUp(s *state, copied backupPart) *state {
	next := *s
	next.backup = w.backupOf(copied)
	return &next
}

// returned returns the queues after all workers have died.
func (w *world) returned(s *state) *queuesPart {
	return w.change(s.queues, func(p *queuesPart) {
		for _, r := range s.runs {
			w.giveBack(p, r, func(string, int) bool { return true })
		}
	})
}

// restore stops all workers, puts the store back to the copy, and sends all messages again. The
// queues keep their messages, or those that they had when they were copied.
func (w *world) restore(s *state) *state {
	next := *s
	next.runs, next.late, next.queues = nil, nil, w.returned(s)
	if q := s.backup.queues; q != nil {
		used := next.queues.taken // the names of workers belong to the explorer
		next.queues = w.change(q, func(p *queuesPart) { p.taken = used })
	}
	next.queues = w.change(next.queues, func(p *queuesPart) {
		for _, name := range w.scenario.Arrive {
			if !slices.ContainsFunc(p.messages, func(item string) bool { return plain(item) == name }) {
				p.messages = append(p.messages, name)
			}
		}
	})
	next.clock++
	next.now = w.clock(next.clock)
	next.store, next.past = s.backup.store, w.pastOf(s.backup.restored(s.past))
	b := *s.backup
	if w.scenario.Stamped {
		b.restores = b.stamps
	}
	b.restores = append(slices.Clip(b.restores), record.Restore{At: next.now, Stamped: w.scenario.Stamped})
	next.backup = w.backupOf(b)
	return w.recall(w.delay((&next).spend(restores)))
}

// beginsRestore reports whether a number is the first one after a restore, and follows another one.
func beginsRestore(before, n uint64) bool {
	return record.Jumps(before, n) && (n-1)%(1<<11) == 0
}

// restored returns the history after a restore. The reader stays where it is, so it may be further
// than the copy.
func (b *backupPart) restored(p *pastPart) pastPart {
	out := pastPart{applied: b.applied, told: p.told, log: b.log, reader: p.reader}
	if at, err := log.ParseOffset(p.reader.Offset); err == nil {
		out.reader.Behind = out.behind(at)
	}
	return out
}

// drops returns an error if a target that admits by number would drop an effect for another one, or
// would wait for a number that never comes. It has received the effects of received.
func (w *world) drops(received []sent, s sent) error {
	if !w.scenario.Stream.Sequenced {
		return nil
	}
	var epoch, number uint64
	for _, r := range received {
		if r.Path == s.Path && r.To == s.To {
			epoch, number = r.Incarnation, r.Sequence
		}
	}
	switch {
	case s.Incarnation < epoch:
		return fmt.Errorf("the target has had epoch %d, and drops %q of epoch %d", epoch, s.Body, s.Incarnation)
	case s.Incarnation == epoch && s.Sequence <= number:
		return fmt.Errorf("the target has had number %d, and drops %q, number %d, as a copy", number, s.Body, s.Sequence)
	case s.Incarnation > epoch && s.Sequence != 1:
		return fmt.Errorf("the target waits for number 1 of epoch %d, and %q has number %d", s.Incarnation, s.Body, s.Sequence)
	}
	return nil
}
