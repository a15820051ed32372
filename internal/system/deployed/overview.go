package deployed

import (
	"context"
	"errors"
	"fmt"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/record"
)

// Overview returns the groups that hold messages, at most limit, and the queues. It finds the
// groups by the index of the table, without a scan, and reads their records. Groups whose effects
// are pending are not in the index: the functions register no failures.
func (s *System) Overview(ctx context.Context, limit int) (admin.Overview, error) {
	o := admin.Overview{Groups: []admin.GroupInfo{}}
	var err error
	if o.Queues, err = s.queueStats(ctx); err != nil {
		return o, err
	}
	var keys []record.GroupKey
	for key, err := range s.store.Waiting(ctx) {
		if err != nil {
			return o, explain(err)
		}
		if len(keys) == limit {
			o.More = 1 // there may be any number
			break
		}
		keys = append(keys, key)
	}
	for _, key := range keys {
		g, err := s.Group(ctx, key.Stream, key.Group)
		switch {
		case errors.Is(err, admin.ErrNotFound): // it was finished and forgotten meanwhile
		case err != nil:
			return o, err
		case len(g.Waiting) > 0:
			o.Groups = append(o.Groups, g)
		}
	}
	return o, nil
}

// Streams returns the streams of the configuration.
func (s *System) Streams(ctx context.Context) ([]record.Stream, error) {
	p, err := s.configured(ctx)
	if err != nil {
		return nil, err
	}
	var out []record.Stream
	for _, name := range p.engine.StreamNames() {
		x, ok := p.engine.Stream(name)
		if !ok {
			return nil, fmt.Errorf("stream %s: %w", name, admin.ErrNotFound)
		}
		out = append(out, x)
	}
	return out, nil
}
