package session_test

import (
	"context"
	"sync/atomic"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/record"
)

// A counting store counts the records that are read and written, the reads of the pool, and the
// writes that fail.
type counting struct {
	session.Store
	reads, writes, conflicts, pools atomic.Int64
}

func (c *counting) Load(ctx context.Context, groups []record.GroupKey, tokens []record.TokenKey) ([]record.Group, []record.Token, error) {
	c.reads.Add(int64(len(groups)))
	for _, key := range groups {
		if key == poolKey() {
			c.pools.Add(1)
		}
	}
	return c.Store.Load(ctx, groups, tokens)
}

func (c *counting) Commit(ctx context.Context, x record.Commit) error {
	c.writes.Add(1)
	err := c.Store.Commit(ctx, x)
	if err != nil {
		c.conflicts.Add(1)
	}
	return err
}

// reset returns how many records were read and written since the last call.
func (c *counting) reset() (reads, writes int64) { return c.reads.Swap(0), c.writes.Swap(0) }

// counted makes the sessions of a world count.
func (w *world) counted(cfg session.Config) *counting {
	c := &counting{Store: w.store}
	w.store, w.Sessions = c, w.with(c, cfg)
	return c
}
