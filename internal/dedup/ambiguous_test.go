package dedup_test

import (
	"context"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/record"
)

func TestACommitInDoubtIsFencedBeforeItsMessageFails(t *testing.T) {
	w := newLab(t).doubtful()
	same(t, "fates", w.process(keyed("a: send")...), []string{"retry"})
	same(t, "record", summary(w.group()), "v1 state= pending=")
}

// A tardy store applies its worker's first commit only when the test calls land; the worker gets an
// error.
type tardy struct {
	portStore
	first *record.Commit
}

func (s *tardy) Commit(ctx context.Context, c record.Commit) error {
	if s.first == nil {
		s.first = &c
		return errInjected
	}
	return s.portStore.Commit(ctx, c)
}

// tardyWorker returns a worker whose first commit is applied, if that is still possible, at its
// first call of a kind. Its handler refuses a message when it runs for the second time.
func (l *lab) tardyWorker(stream record.Stream, refused, call string) *worker {
	s := &tardy{}
	s.w = l.workerOf(dedup.Config{Streams: []record.Stream{stream}, Store: s})
	runs := 0
	l.scripts[refused] = func(context.Context, *record.Attempt, record.Message) error {
		if runs++; runs > 1 {
			return &record.RejectError{Detail: "not now"}
		}
		return nil
	}
	landed := false
	s.w.at = func(what string) fault {
		if !landed && strings.HasPrefix(what, call) {
			landed = true
			_ = l.store.Commit(context.Background(), *s.first)
		}
		return works
	}
	return s.w
}

func TestACommitInDoubtIsFencedBeforeItsMessageIsRefused(t *testing.T) {
	l := newLab(t)
	l.worker(byKey).process(keyed("old: kb=200 send")...)
	// there is no room for b before the publisher clears an entry
	w := l.tardyWorker(byKey, "a", "clear")
	same(t, "fates", w.process(keyed("a", "b: kb=100 send")...), []string{"rejected rejected", "processed"})
	same(t, "state", string(l.group().State), "old,b,")
}

func TestACommitInDoubtIsFencedBeforeAHeldMessageIsDeadLettered(t *testing.T) {
	l := newLab(t)
	l.worker(bySequence).process(numbered("2")...)
	w := l.tardyWorker(bySequence, "p/0/2", "dead")
	same(t, "fates", w.process(numbered("1")...), []string{"processed"})
	same(t, "dead letters", len(l.lettered()), 1)
	same(t, "next", l.group().Sources["p"].Next, 2)
}
