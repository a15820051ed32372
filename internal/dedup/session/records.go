package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// rounds is how often a step is tried if others write the same record.
const rounds = 16

// errAgain says that another write came first: the step has to begin again.
var errAgain = fmt.Errorf("others write this record all the time: %w", record.ErrConflict)

// repeat runs a step until no other write comes between its loads and its write, with a pause after
// each try.
func (s *Sessions) repeat(ctx context.Context, step func() error) error {
	for n := 1; ; n++ {
		if err := step(); !errors.Is(err, record.ErrConflict) {
			return err
		}
		if n == rounds {
			return errAgain
		}
		if err := s.cfg.Pause(ctx, n); err != nil {
			return err
		}
	}
}

func (s *Sessions) load(ctx context.Context, keys ...record.GroupKey) ([]record.Group, error) {
	groups, _, err := s.store.Load(ctx, keys, nil)
	if err != nil {
		return nil, fmt.Errorf("load session: %w", err)
	}
	return groups, nil
}

func (s *Sessions) session(ctx context.Context, id ID) (record.Group, state, error) {
	groups, err := s.load(ctx, id.key())
	if err != nil {
		return record.Group{}, state{}, err
	}
	st, err := decodeState(&groups[0])
	return groups[0], st, err
}

// states returns the states of sessions. One that does not exist has the zero value.
func (s *Sessions) states(ctx context.Context, ids []ID) ([]state, error) {
	keys := make([]record.GroupKey, len(ids))
	for i, id := range ids {
		keys[i] = id.key()
	}
	groups, err := s.load(ctx, keys...)
	if err != nil {
		return nil, err
	}
	out := make([]state, len(ids))
	for i := range groups {
		if out[i], err = decodeState(&groups[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// held returns the record of a session and its state, if the caller holds it.
func (s *Sessions) held(ctx context.Context, id ID, fence uint64) (record.Group, state, error) {
	g, st, err := s.session(ctx, id)
	if err == nil {
		err = st.check(fence)
	}
	return g, st, err
}

// beforeRestore reports whether a session's life is older than the last restore. The pool may have
// dealt entries to it that the restored copy does not know.
func (s *Sessions) beforeRestore(st *state) bool { return st.Life < s.cfg.Restores.LastMillis() }

// checkLife returns a [*RestoredError] if the life of a session that a pool deals to is older than
// the last restore.
func (s *Sessions) checkLife(st *state) error {
	if !s.beforeRestore(st) {
		return nil
	}
	return &RestoredError{At: s.cfg.Restores.Last()}
}

func (s *Sessions) pool(ctx context.Context, stream string) (record.Group, pool, error) {
	groups, err := s.load(ctx, poolKey(stream))
	if err != nil {
		return record.Group{}, pool{}, err
	}
	p, err := decodePool(&groups[0])
	return groups[0], p, err
}

// write replaces a record that was loaded by next, with another state. If another write came first,
// the error wraps [record.ErrConflict].
func (s *Sessions) write(ctx context.Context, loaded, next record.Group, data []byte, expires time.Time) error {
	next.Version, next.State, next.Expires = loaded.Version+1, data, expires
	if loaded.Version == 0 {
		next.Incarnation = incarnation(s.cfg.Now())
	}
	if err := s.store.Commit(ctx, record.Commit{Loaded: loaded, Next: next, Attempt: s.cfg.NewID()}); err != nil {
		return fmt.Errorf("write session: %w", err)
	}
	return nil
}

// never is the expiry of a record that does not expire. It is not the zero time, which sweeps of
// groups take for a missing one.
func never() time.Time { return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }

// writeState writes the state of a session. The record expires only after the pool has taken back
// the unread entries: a new life of the name would not know them. As long as effects are pending it
// does not expire; the publisher then sets the expiry, from Retention.
func (s *Sessions) writeState(ctx context.Context, loaded, next record.Group, st *state) error {
	expires := never()
	if next.Retention = s.cfg.Keep; st.Returned {
		expires = s.cfg.Now().Add(s.cfg.Keep)
		if next.HasEffects() {
			expires = time.Time{}
		}
	}
	return s.write(ctx, loaded, next, st.encode(), expires)
}

// incarnation returns the incarnation of a record that is created now: Unix milliseconds.
func incarnation(now time.Time) uint64 {
	return uint64(max(1, now.UnixMilli()))
}
