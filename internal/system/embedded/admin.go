package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/record"
)

var _ admin.Admin = (*System)(nil)

// Stats counts the unfinished work. It walks through the whole store.
func (s *System) Stats(ctx context.Context) (admin.Stats, error) {
	stats, err := admin.Tally(ctx, s.store, s.engine.StreamNames(), s.options.Now(), s.passedOver)
	if err != nil {
		return admin.Stats{}, err
	}
	stats.Queues = s.queueStats()
	waiting, err := s.queues.delayed.Stats(ctx)
	if err != nil {
		return admin.Stats{}, err
	}
	if stats.NotDue = waiting.Waiting; !waiting.Next.IsZero() { // zero if none can be read
		stats.NextDue = &waiting.Next
	}
	return stats.Total(), nil
}

func (s *System) queueStats() (out []admin.QueueStats) {
	for _, q := range s.queues.all() {
		st := q.Stats()
		x := admin.QueueStats{Queue: q.Name(), Visible: st.Ready, InFlight: st.InFlight, Delayed: st.Delayed, DeadLetter: strings.HasSuffix(q.Name(), deadSuffix)}
		if x.DeadLetter {
			bounds := s.letterBounds()
			x.Most = bounds.Most
			x.Expiring = q.Older(s.lettersBefore(s.options.Now().Add(noticeTime(bounds))))
		}
		out = append(out, x)
	}
	return out
}

// Groups lists groups of a stream.
func (s *System) Groups(ctx context.Context, o admin.GroupsOptions) ([]admin.GroupInfo, error) {
	if _, ok := s.engine.Stream(o.Stream); !ok {
		return nil, fmt.Errorf("stream %s: %w", o.Stream, admin.ErrNotFound)
	}
	return admin.ListGroups(ctx, s.store, o, s.passedOver)
}

// stillHolds reports whether a group that held messages before a sweep holds some after it.
func (s *System) stillHolds(ctx context.Context, before *record.Group) (bool, error) {
	if !before.HasHeld() {
		return false, nil
	}
	now, _, err := s.store.Load(ctx, []record.GroupKey{before.Key}, nil)
	if err != nil {
		return false, err
	}
	return now[0].HasHeld(), nil
}

// Sweep looks at every group with unfinished work, publishes its pending effects, and deletes
// expired records.
func (s *System) Sweep(ctx context.Context) (admin.SweepInfo, error) {
	var info admin.SweepInfo
	s.now().pipeline.Hasten()
	err := s.eachGroup(ctx, func(g *record.Group) error {
		info.Groups++
		if g.Idle() {
			return nil
		}
		err := s.engine.Sweep(ctx, g.Key)
		if err == nil {
			err = s.engine.Publish(ctx, []record.GroupKey{g.Key})[0]
		}
		if err != nil {
			info.Failed++
			s.logGroup(ctx, slog.LevelWarn, "group not swept", g.Key, err)
			return ctx.Err()
		}
		waits, err := s.stillHolds(ctx, g)
		if err != nil {
			return err
		}
		if waits {
			info.Waiting++
		} else {
			info.Finished++
		}
		return nil
	})
	if err != nil {
		return info, err
	}
	info.Expired, info.Blobs, err = s.expire(ctx)
	return info, err
}
