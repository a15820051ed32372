package outbox

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// ClearLeftovers marks the tokens of entries without effects done and clears the entries. It also
// sets the missing expiry of an idle record, see [record.Group.MissingExpiry].
func (p *Publisher) ClearLeftovers(ctx context.Context, key record.GroupKey) error {
	groups, _, err := p.cfg.Store.Load(ctx, []record.GroupKey{key}, nil)
	if err != nil {
		return fmt.Errorf("load group: %w", err)
	}
	g := groups[0]
	if left := g.Leftovers(); len(left) > 0 || g.MissingExpiry() {
		pub := newPublication(g)
		pub.entries = left
		return p.finish(ctx, []*publication{pub})[0]
	}
	return nil
}

// Release writes the tokens of kept entries and removes the entries, to make room in the record.
func (p *Publisher) Release(ctx context.Context, key record.GroupKey) error {
	groups, _, err := p.cfg.Store.Load(ctx, []record.GroupKey{key}, nil)
	if err != nil {
		return fmt.Errorf("load group: %w", err)
	}
	g, now := groups[0], p.cfg.Now()
	kept := slices.DeleteFunc(g.Settled(), func(entry record.Pending) bool { return !entry.Kept() })
	if len(kept) == 0 {
		return nil
	}
	if err := p.MarkLeftovers(ctx, key, kept, now); err != nil {
		return err
	}
	c := record.NewClear(&g, now)
	for _, entry := range kept {
		c.Numbers = append(c.Numbers, entry.Number)
	}
	if err := p.cfg.Store.Clear(ctx, c); err != nil {
		return fmt.Errorf("clear group: %w", err)
	}
	return nil
}

const (
	// StagedTime is the longest time that an attempt may take from its first staged blob until it
	// writes its commit, and again the longest time for that write. [Publisher.SweepBlobs] relies
	// on it.
	StagedTime = 20 * time.Minute
	// orphanTime is the age at which no commit can refer to a staged blob any more, with allowance
	// for clocks and slow writes.
	orphanTime = 3 * StagedTime
)

// Stage writes an attempt's blobs under names that are invisible to readers. It returns the names,
// also after an error, which may have come after the write.
func (p *Publisher) Stage(ctx context.Context, a *record.Attempt) (names []string, err error) {
	for name, body := range a.Staged() {
		names = append(names, name)
		if err := p.cfg.Blobs.Stage(ctx, name, body); err != nil {
			return names, fmt.Errorf("stage blob: %w", err)
		}
	}
	return names, nil
}

// SweepBlobs deletes blobs that were staged before a time, and at least an hour ago, by attempts
// that no group contains: they lost, or crashed. If a group is corrupt, SweepBlobs keeps the blobs
// that it may contain and continues; the error then wraps [record.ErrCorrupt].
func (p *Publisher) SweepBlobs(ctx context.Context, lister record.Lister, before time.Time) (int, error) {
	if p.cfg.Blobs == nil {
		return 0, nil
	}
	if latest := p.cfg.Now().Add(-orphanTime); before.After(latest) {
		before = latest
	}
	staged, err := p.cfg.Blobs.Staged(ctx, before)
	if err != nil || len(staged) == 0 {
		return 0, err
	}
	readable := make(map[string]bool, len(staged)) // the groups of staged blobs, by mark
	for _, name := range staged {
		readable[record.StagedFor(name)] = false
	}
	known := map[string]bool{}
	var corrupt error
	err = record.EachGroup(ctx, lister, "", func(err error) { corrupt = err }, func(g *record.Group) error {
		if mark := g.Key.Mark(); !readable[mark] {
			if _, asked := readable[mark]; asked {
				readable[mark] = true
			}
		}
		for _, b := range g.Blobs() {
			known[b.Staged] = true
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("list groups: %w", err)
	}
	kept := 0
	strays := slices.DeleteFunc(staged, func(name string) bool {
		doubtful := !known[name] && corrupt != nil && !readable[record.StagedFor(name)]
		if doubtful {
			kept++
		}
		return known[name] || doubtful
	})
	if err := p.cfg.Blobs.Discard(ctx, strays); err != nil {
		return 0, fmt.Errorf("discard staged blobs: %w", err)
	}
	if kept > 0 {
		return len(strays), fmt.Errorf("%d staged blobs kept: %w", kept, corrupt)
	}
	return len(strays), nil
}
