package session

import (
	"context"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// Release ends the lease: the next consumer need not wait. It can be repeated.
func (s *Sessions) Release(ctx context.Context, id ID, fence uint64) error {
	_, err := s.change(ctx, id, fence, "release", func(_ *record.Group, st *state) (bool, error) {
		released := st.LeaseUntil == 0
		st.LeaseUntil = 0
		return !released, nil
	})
	return err
}

// Renew lets the lease run from now on, and returns its end. With [Config.Alone] it writes nothing.
func (s *Sessions) Renew(ctx context.Context, id ID, fence uint64) (until time.Time, err error) {
	_, err = s.change(ctx, id, fence, "renew", func(_ *record.Group, st *state) (bool, error) {
		var kept bool
		if until, kept = s.seen(id, st); kept {
			return false, nil
		}
		st.renew(s.cfg.Now())
		until = st.leaseUntil()
		return true, nil
	})
	return until, err
}
