package outbox

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// ClearLeftovers clears the entries without effects, done first, and gives an idle record the end that a lost race kept from it.
func (p *Publisher) ClearLeftovers(ctx context.Context, key record.GroupKey) error {
	groups, _, err := p.cfg.Store.Load(ctx, []record.GroupKey{key}, nil)
	if err != nil {
		return fmt.Errorf("load group: %w", err)
	}
	g := groups[0]
	if left := g.Leftovers(); len(left) > 0 || g.Endless() {
		g.Pending = left
		return p.finish(ctx, []*publication{{group: g}})[0]
	}
	return nil
}

// SweepBlobs deletes objects that were staged before a time by attempts that no group knows: they lost, or crashed.
func (p *Publisher) SweepBlobs(ctx context.Context, lister record.Lister, before time.Time) (int, error) {
	if p.cfg.Blobs == nil {
		return 0, nil
	}
	staged, err := p.cfg.Blobs.Staged(ctx, before)
	if err != nil || len(staged) == 0 {
		return 0, err
	}
	known := map[string]bool{}
	for after := (record.GroupKey{}); ; {
		groups, err := lister.Groups(ctx, "", after, 100)
		if err != nil {
			return 0, fmt.Errorf("list groups: %w", err)
		}
		if len(groups) == 0 {
			break
		}
		for _, g := range groups {
			for _, b := range g.Blobs() {
				known[b.Staged] = true
			}
		}
		after = groups[len(groups)-1].Key
	}
	strays := slices.DeleteFunc(staged, func(name string) bool { return known[name] })
	if err := p.cfg.Blobs.Discard(ctx, strays); err != nil {
		return 0, fmt.Errorf("discard staged blobs: %w", err)
	}
	return len(strays), nil
}
