package session_test

import (
	"context"
	"errors"
	"testing"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/record"
)

// An interrupted store runs a function before the first load of a pool.
type interrupted struct {
	session.Store
	before func()
}

func (i *interrupted) Load(ctx context.Context, groups []record.GroupKey, tokens []record.TokenKey) ([]record.Group, []record.Token, error) {
	if before := i.before; before != nil && groups[0] == poolKey() {
		i.before = nil
		before()
	}
	return i.Store.Load(ctx, groups, tokens)
}

// The pool forgets a session that is retired, which may happen after a call has loaded the session.
// Such a call must not answer that the number was never dealt.
func TestACallDuringARetirementIsToldOfThatAndNotThatItIsAhead(t *testing.T) {
	calls := map[string]func(w *world, s *session.Sessions, fence uint64) error{
		"commit": func(w *world, s *session.Sessions, fence uint64) error {
			return s.Commit(w.Context(), ann, session.Commit{Fence: fence, From: 0, To: 2})
		},
		"fail": func(w *world, s *session.Sessions, fence uint64) error {
			_, err := s.Fail(w.Context(), ann, session.Failure{Fence: fence, At: 1, Try: 1})
			return err
		},
	}
	each(t, session.Config{}, session.Pool{}, func(w *world) {
		w.fill(0, 2)
		for name, call := range calls {
			f := w.open(ann, session.TakeFree).Fence
			w.read(ann, f, 2)
			err := call(w, w.on(&interrupted{w.store, func() { w.retire(ann, f) }}), f)
			if !errors.Is(err, session.ErrRetired) {
				w.Errorf("%s during a retirement by the holder: %v", name, err)
			}
			f = w.open(ann, session.TakeFree).Fence
			w.read(ann, f, 2)
			err = call(w, w.on(&interrupted{w.store, func() { w.retire(ann, w.open(ann, session.TakeNow).Fence) }}), f)
			if e := fails[session.FencedError](w, err); e.Fence != f+1 {
				w.Errorf("%s during a retirement by another one: %+v", name, e)
			}
		}
	})
}
