package admission

import (
	"context"
	"errors"
	"fmt"

	"github.com/effectively-once/once/internal/record"
)

// namedGroups are groups by the ids of messages, see [Arrival.Named].
type namedGroups map[record.GroupKey]record.Group

func (n namedGroups) of(a *Arrival) record.Group {
	return n[record.GroupKey{Stream: a.Stream, Group: a.Identity()}]
}

// named loads the groups that are named by the ids of messages, if their records may take the place
// of done tokens. It leaves out records that can't be read: the worker that loads one reports it.
func (i *Issuer) named(ctx context.Context, arrivals []*Arrival) (namedGroups, error) {
	found := namedGroups{}
	var keys []record.GroupKey
	for _, a := range arrivals {
		s, err := a.Check(i.cfg.Streams)
		key, ok := a.Named(s)
		if _, asked := found[key]; ok && err == nil && !asked {
			found[key] = record.Group{Key: key}
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	return found, i.load(ctx, keys, found)
}

func (i *Issuer) load(ctx context.Context, keys []record.GroupKey, into namedGroups) error {
	groups, _, err := i.cfg.Store.Load(ctx, keys, nil)
	switch {
	case errors.Is(err, record.ErrCorrupt) && len(keys) > 1:
		for n := range keys {
			if err := i.load(ctx, keys[n:n+1], into); err != nil {
				return err
			}
		}
		return nil
	case errors.Is(err, record.ErrCorrupt):
		return nil
	case err != nil:
		return fmt.Errorf("load groups of ids: %w", err)
	}
	for _, g := range groups {
		into[g.Key] = g
	}
	return nil
}

// kept returns the token of a message that is done, as the group that its id names shows.
func (i *Issuer) kept(a *Arrival, named namedGroups) (record.Token, bool) {
	g, now := named.of(a), i.cfg.Now()
	entry, _ := a.Entry(&g, now)
	return entry.DoneToken(g.Key, now), entry.Kept()
}
