package session_test

import (
	"context"
	"errors"
	"time"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/record"
)

var errBroken = errors.New("broken")

// A failing store fails each commit after the first ones, if after is not 0, and runs before in
// front of the first commit.
type failing struct {
	session.Store
	after  int
	fail   bool // each commit, also if after is 0
	before func()
}

func (f *failing) Commit(ctx context.Context, c record.Commit) error {
	if f.before != nil {
		before := f.before
		f.before = nil
		before()
		return f.Store.Commit(ctx, c)
	}
	if f.after--; f.after < 0 || f.fail {
		return errBroken
	}
	return f.Store.Commit(ctx, c)
}

// on returns sessions on another store, with the default settings except Keep.
func (w *world) on(store session.Store) *session.Sessions {
	return w.with(store, session.Config{Keep: time.Minute})
}

// with returns sessions on another store, with other settings except those of the pool.
func (w *world) with(store session.Store, cfg session.Config) *session.Sessions {
	cfg.Pools, cfg.Now = map[string]session.Pool{stream: w.pool}, func() time.Time { return w.now }
	return session.New(store, cfg)
}

func (w *world) noError(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}
