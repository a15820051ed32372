package dedup_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/record"
)

// oneWrite is a store that commits several groups together.
type oneWrite struct {
	*memstore.Store
	// answer changes the results of the n-th write, from 1 on; nil leaves them as they are
	answer func(n int, commits []record.Commit, errs []error)

	mu     sync.Mutex
	writes []int // groups of each write, with those of single commits
}

func (*oneWrite) CommitsTogether() bool { return true }

func (s *oneWrite) CommitAll(ctx context.Context, commits []record.Commit) []error {
	errs := make([]error, len(commits))
	for i := range commits {
		errs[i] = s.Store.Commit(ctx, commits[i])
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = append(s.writes, len(commits))
	if s.answer != nil {
		s.answer(len(s.writes), commits, errs)
	}
	return errs
}

func (s *oneWrite) Commit(ctx context.Context, c record.Commit) error {
	return s.CommitAll(ctx, []record.Commit{c})[0]
}

// runs returns how often the message of a group was applied.
func (s *oneWrite) runs(t *testing.T, group string) int {
	t.Helper()
	groups, _, err := s.Load(t.Context(), []record.GroupKey{{Stream: "s", Group: group}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return len(groups[0].State)
}

// groupsOf returns messages of as many groups, and their names.
func groupsOf(n int) (messages []record.Message, names []string) {
	for i := range n {
		name := fmt.Sprint("g", i)
		messages, names = append(messages, record.Message{Stream: "s", ID: name, Group: name}), append(names, name)
	}
	return messages, names
}

// processAll processes a message of each group and checks that each is applied once.
func (s *oneWrite) processAll(t *testing.T, n int, handler record.Handler) {
	t.Helper()
	e, err := dedup.New(dedup.Config{
		Store: s, Queues: &worker{}, Pause: func(context.Context, int) error { return nil },
		Streams: []record.Stream{{Name: "s", Handler: func(ctx context.Context, a *record.Attempt, m record.Message) error {
			a.State = append(a.State, 'x')
			if handler != nil {
				return handler(ctx, a, m)
			}
			return nil
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	messages, names := groupsOf(n)
	for i, o := range e.Process(t.Context(), messages) {
		if o.Kind != record.Processed {
			t.Errorf("message %d: %+v", i, o)
		}
		if n := s.runs(t, names[i]); n != 1 {
			t.Errorf("group %s was applied %d times", names[i], n)
		}
	}
}

func TestTheGroupsOfABatchAreCommittedWithFewWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that no time passes
		for groups, want := range map[int]string{2: "[2]", 100: "[100]", 300: "[128 128 44]"} {
			s := &oneWrite{Store: memstore.New(time.Now)}
			s.processAll(t, groups, nil)
			same(t, "groups of each write", fmt.Sprint(s.writes), want)
		}
	})
}

func TestAGroupDoesNotWaitForTheHandlerOfAnotherGroup(t *testing.T) {
	for _, slow := range []string{"g0", "g2", "g3"} {
		t.Run(slow, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				others, committed := make(chan struct{}), 0
				s := &oneWrite{Store: memstore.New(time.Now)}
				s.answer = func(_ int, commits []record.Commit, _ []error) {
					if committed += len(commits); committed == 3 {
						close(others)
					}
				}
				s.processAll(t, 4, func(_ context.Context, _ *record.Attempt, m record.Message) error {
					if m.Group == slow {
						<-others // ends only when they are committed
					}
					return nil
				})
			})
		})
	}
}

func TestAGroupWhoseCommitConflictsIsLoadedAgainWithoutTheOthers(t *testing.T) {
	s := &oneWrite{Store: memstore.New(time.Now)}
	rival := record.Group{Key: record.GroupKey{Stream: "s", Group: "g1"}}
	once := sync.OnceFunc(func() {
		next := rival
		next.Version, next.Incarnation = 1, 7
		if err := s.Store.Commit(t.Context(), record.Commit{Loaded: rival, Next: next}); err != nil {
			t.Error(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s.processAll(t, 3, func(context.Context, *record.Attempt, record.Message) error { once(); return nil })
	})
	same(t, "groups of each write", fmt.Sprint(s.writes), "[3 1]")
}

func TestMessagesWhoseCommonWriteHasNoAnswerAreAppliedOnce(t *testing.T) {
	s := &oneWrite{Store: memstore.New(time.Now)}
	s.answer = func(n int, _ []record.Commit, errs []error) {
		for i := range errs {
			if n == 1 {
				errs[i] = errors.New("no answer")
			}
		}
	}
	synctest.Test(t, func(t *testing.T) { s.processAll(t, 3, nil) })
}

// A letterbox takes dead letters, and nothing else.
type letterbox struct{ record.Queues }

func (letterbox) DeadLetter(context.Context, []record.Refused) error { return nil }

func TestAMessageThatIsTooLargeForACommonWriteIsRefusedAlone(t *testing.T) {
	s := &oneWrite{Store: memstore.New(time.Now)}
	large := func(c *record.Commit) bool { return c.Next.Key.Group == "g1" }
	e, err := dedup.New(dedup.Config{
		Store: refusing{s, large}, Queues: letterbox{}, Streams: []record.Stream{{Name: "s", Handler: func(_ context.Context, a *record.Attempt, _ record.Message) error {
			a.State = append(a.State, 'x')
			return nil
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	messages, names := groupsOf(3)
	for i, o := range e.Process(t.Context(), messages) {
		want, runs := record.Processed, 1
		if i == 1 {
			want, runs = record.Rejected, 0
		}
		if o.Kind != want || s.runs(t, names[i]) != runs {
			t.Errorf("message %d: %+v", i, o)
		}
	}
}

// refusing refuses commits with state for good.
type refusing struct {
	*oneWrite
	refuses func(c *record.Commit) bool
}

func (s refusing) CommitAll(ctx context.Context, commits []record.Commit) []error {
	errs := make([]error, len(commits))
	for i := range commits {
		if c := &commits[i]; s.refuses(c) && len(c.Next.State) > 0 {
			errs[i] = &record.RefusedError{Reason: record.ReasonInvalid, Detail: "too large"}
			continue
		}
		errs[i] = s.oneWrite.Commit(ctx, commits[i])
	}
	return errs
}

func (s refusing) Commit(ctx context.Context, c record.Commit) error {
	return s.CommitAll(ctx, []record.Commit{c})[0]
}
