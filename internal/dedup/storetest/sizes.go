package storetest

import (
	"errors"
	"slices"
	"testing"

	"github.com/effectively-once/once/internal/record"
)

func sizeCases() []testCase {
	limited := func(h Harness) bool { return h.MaxRecord > 0 }
	return []testCase{
		{name: "state, effects and replies of 300 KB together come back", run: testRoom},
		{name: "a commit that is too large by itself is refused and changes nothing", run: testTooLarge, when: limited},
		{name: "a commit that is too large beside what is pending is not refused and has room later", run: testFull, when: limited},
		{name: "a token with too large a reply is refused and changes nothing", run: testTooLargeReply, when: limited},
	}
}

func testRoom(t *testing.T, s *suite) {
	want := s.commit(t, s.group(t, groupA()), func(c *record.Commit) {
		c.Next.State = make([]byte, 100<<10)
		c.Next.Pending, c.Next.Last = pending(1, 2), 2
		c.Next.Pending[0].Effects[0].Body = make([]byte, 100<<10)
		c.Next.Pending[1].Reply.Body = make([]byte, 100<<10)
	})
	same(t, "group", s.group(t, groupA()), want)
}

// refused checks for an error that says that the write was not applied, and that a retry can't
// succeed.
func refused(t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[*record.RefusedError](err); !ok || errors.Is(err, record.ErrConflict) {
		t.Errorf("got %v, want a refusal", err)
	}
}

func testTooLarge(t *testing.T, s *suite) {
	for name, change := range map[string]func(c *record.Commit){
		"state": func(c *record.Commit) { c.Next.State = make([]byte, s.harness.MaxRecord) },
		"effect": func(c *record.Commit) {
			c.Next.Pending, c.Next.Last = pending(1), 1
			c.Next.Pending[0].Effects[0].Body = make([]byte, s.harness.MaxRecord)
		},
		"all together": func(c *record.Commit) {
			c.Next.State = make([]byte, s.harness.MaxRecord/2)
			c.Next.Pending, c.Next.Last = pending(1, 2), 2
			c.Next.Pending[0].Effects[0].Body = make([]byte, s.harness.MaxRecord/4)
			c.Next.Pending[1].Reply.Body = make([]byte, s.harness.MaxRecord/4)
		},
	} {
		t.Run(name, func(t *testing.T) {
			key := record.GroupKey{Stream: "orders", Group: name}
			refused(t, s.Commit(t.Context(), following(record.Group{Key: key}, change)))
			same(t, "absent group", s.group(t, key), record.Group{Key: key})
			loaded := s.commit(t, record.Group{Key: key}, nil)
			refused(t, s.Commit(t.Context(), following(loaded, change)))
			same(t, "group", s.group(t, key), loaded)
		})
	}
}

func testFull(t *testing.T, s *suite) {
	half := make([]byte, s.harness.MaxRecord*6/10)
	loaded := s.commit(t, s.group(t, groupA()), func(c *record.Commit) {
		c.Next.Pending, c.Next.Last = pending(1), 1
		c.Next.Pending[0].Effects[0].Body = half
	})
	another := func(c *record.Commit) {
		p := pending(2)
		p[0].Effects[0].Body = half
		c.Next.Pending, c.Next.Last = append(slices.Clip(c.Next.Pending), p...), 2
	}
	err := s.Commit(t.Context(), following(loaded, another))
	if _, ok := errors.AsType[*record.RefusedError](err); err == nil || ok || errors.Is(err, record.ErrConflict) {
		t.Errorf("got %v, want an error that may pass", err)
	}
	same(t, "group", s.group(t, groupA()), loaded)
	if err := s.Clear(t.Context(), record.Clear{Group: groupA(), Incarnation: loaded.Incarnation, Numbers: []uint64{1}}); err != nil {
		t.Fatal(err)
	}
	s.commit(t, s.group(t, groupA()), another)
}

func testTooLargeReply(t *testing.T, s *suite) {
	done := fullToken(tokenKey(1), record.Done)
	done.Reply.Body = make([]byte, s.harness.MaxRecord)
	_, err := s.SwapToken(t.Context(), record.Token{Key: done.Key}, done)
	refused(t, err)
	refused(t, s.MarkDone(t.Context(), []record.Token{done}))
	same(t, "token", s.token(t, done.Key), record.Token{Key: done.Key})
}
