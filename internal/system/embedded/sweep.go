package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/record"
)

const (
	sweepEvery  = time.Second
	expireEvery = time.Minute
	expireBatch = 1000
	// lostAfter is the time without any change after which pending work counts as stranded. That is
	// a precaution: its trigger is in the queue for as long as it fails, and work that a crash
	// stranded is due at the next start.
	lostAfter = time.Hour
	// unsweptAfter is the time after which a sweep that failed is repeated.
	unsweptAfter = time.Minute
	// stagedAfter is the age at which a staged blob that no group knows is deleted. It is longer
	// than any attempt runs.
	stagedAfter = time.Hour
)

func (s *System) eachGroup(ctx context.Context, do func(*record.Group) error) error {
	return record.EachGroup(ctx, s.store, "", s.passedOver, do)
}

// passedOver logs records that can't be read; the readable ones must not wait for them.
func (s *System) passedOver(err error) { s.options.Log.Error("records passed over", "error", err) }

// sweepForever acts on gaps, finishes stranded work and deletes expired data, until the context
// ends.
func (s *System) sweepForever(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	expired := s.options.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.sweep(ctx)
		s.sweepEnds(ctx)
		s.dropLetters(time.Time{})
		s.flush()
		if now := s.options.Now(); now.Sub(expired) >= expireEvery {
			expired = now
			s.sweepLetters(now)
			s.sweepSessions(ctx)
			if _, _, err := s.expire(ctx); err != nil && ctx.Err() == nil {
				s.options.Log.Error("expired records not deleted", "error", err)
			}
		}
	}
}

// flush makes the writes durable that did not wait for the disk, so that an idle process has
// nothing to lose.
func (s *System) flush() {
	if !s.dirty.Swap(false) {
		return
	}
	if err := s.db.LogData(nil, pebble.Sync); err != nil {
		s.options.Log.Error("writes not synced", "error", err)
	}
}

// sweep acts on gaps, and on groups without any change for a long time.
func (s *System) sweep(ctx context.Context) {
	for _, key := range s.watch.held() {
		err := s.engine.CloseGaps(ctx, key)
		if err == nil {
			err = s.look(ctx, key)
		}
		if err != nil && ctx.Err() == nil {
			s.logGroup(ctx, slog.LevelError, "gaps not closed", key, err)
		}
	}
	for _, key := range s.watch.due(lostAfter) {
		err := s.engine.Sweep(ctx, key)
		if err == nil {
			err = s.look(ctx, key)
		}
		if err != nil && ctx.Err() == nil {
			s.watch.dueIn(key, unsweptAfter)
			s.logGroup(ctx, slog.LevelError, "group not swept", key, err)
		}
	}
}

// sweepEnds continues the ends of streams.
func (s *System) sweepEnds(ctx context.Context) {
	if err := s.now().sessions.SweepEnds(ctx); err != nil && ctx.Err() == nil {
		s.options.Log.Error("end of a stream not sent", "error", err)
	}
}

// sweepSessions finishes the retirements of sessions that a process that died has begun, and
// reports entries that wait for long.
func (s *System) sweepSessions(ctx context.Context) {
	if err := s.now().sessions.Late(ctx); err != nil && ctx.Err() == nil {
		s.options.Log.Error("sessions not looked at", "error", err)
	}
	err := record.EachGroup(ctx, s.store, record.SessionsStream, s.passedOver, func(g *record.Group) error {
		if err := s.now().sessions.Sweep(ctx, g.Key); err != nil && ctx.Err() == nil {
			s.logGroup(ctx, slog.LevelError, "session not swept", g.Key, err)
		}
		return ctx.Err()
	})
	if err != nil && ctx.Err() == nil {
		s.options.Log.Error("sessions not swept", "error", err)
	}
}

func (s *System) logGroup(ctx context.Context, level slog.Level, text string, key record.GroupKey, err error) {
	s.options.Log.LogAttrs(ctx, level, text, append(key.LogAttrs(s.options.LogKeys), record.FailureAttrs(0, err)...)...) //nolint:sloglint // callers pass literals
}

// look notes a group as it is now: if a commit failed, the watch may expect too much, and if a
// clear overtook the answer of its commit, the watch may have missed it. Without a look, such a
// group would be due forever.
func (s *System) look(ctx context.Context, key record.GroupKey) error {
	groups, _, err := s.store.Load(ctx, []record.GroupKey{key}, nil)
	if err != nil {
		return err
	}
	s.watch.note(&groups[0], s.options.Now())
	return nil
}

// expireTokens deletes expired records from time to time, until the context ends. Run does so too:
// this is for programs that use tokens only, and don't call it.
func (s *System) expireTokens(ctx context.Context) {
	tick := time.NewTicker(s.options.expireEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if _, err := s.expireRecords(ctx); err != nil && ctx.Err() == nil {
			s.options.Log.Error("expired records not deleted", "error", err)
		}
	}
}

func (s *System) expireRecords(ctx context.Context) (records int, err error) {
	for {
		n, err := s.store.Expire(ctx, expireBatch)
		records += n
		if err != nil {
			return records, fmt.Errorf("delete expired records: %w", err)
		}
		if n < expireBatch {
			return records, nil
		}
	}
}

// expire deletes expired data: records, marks of file destinations, stray blobs.
func (s *System) expire(ctx context.Context) (records, blobs int, err error) {
	if records, err = s.expireRecords(ctx); err != nil {
		return records, 0, err
	}
	for _, f := range s.outputs() {
		if _, err := f.Expire(ctx, expireBatch); err != nil {
			return records, 0, fmt.Errorf("delete expired marks: %w", err)
		}
	}
	blobs, err = s.engine.SweepBlobs(ctx, s.store, s.options.Now().Add(-stagedAfter))
	return records, blobs, err
}
