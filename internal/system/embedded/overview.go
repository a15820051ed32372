package embedded

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/record"
)

// slowAfter is the time after which a group with pending effects is in the overview although no try
// has failed.
const slowAfter = 10 * time.Second

// Overview returns the groups that wait for something, at most limit, and the queues. It reads the
// records of these groups only. After a start, a failing message is in it from its next failed try
// on.
func (s *System) Overview(ctx context.Context, limit int) (admin.Overview, error) {
	o := admin.Overview{Groups: []admin.GroupInfo{}, Queues: s.queueStats()}
	keys := s.stuck()
	for i, key := range keys {
		if len(o.Groups) == limit {
			o.More = len(keys) - i
			break
		}
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

// stuck returns the groups that may wait for something: first those with the most failed tries.
func (s *System) stuck() []record.GroupKey {
	tries := map[record.GroupKey]int{}
	for _, w := range s.waiting.All() {
		tries[w.Group] = max(tries[w.Group], w.Try)
	}
	for _, key := range s.watch.unfinished(slowAfter) {
		if _, failing := tries[key]; !failing {
			tries[key] = 0
		}
	}
	keys := make([]record.GroupKey, 0, len(tries))
	for key := range tries {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b record.GroupKey) int {
		return cmp.Or(cmp.Compare(tries[b], tries[a]), cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Group, b.Group))
	})
	return keys
}
