// Package pebblestore is a store in the embedded Pebble database: durable, one fsync for many callers.
//
// # Latches
//
// A conditional write reads the record, checks the condition and writes, under a latch of its key. Pebble makes a write visible before its log is
// synced; a reader who saw it then could publish effects of a commit that a crash takes back. So the latch is held until the sync has finished, and
// readers take it too. Writers of different keys do not wait for each other: they sync together.
//
// Writes that may be lost (see record.Store, Durability) are not synced. They share the write-ahead log with all others, so a crash loses one only
// together with everything written after it.
//
// # Limits
//
// Times are kept to the microsecond. Empty slices and maps read as nil. A database has one Store, in one process.
package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/record"
)

// Options are what a store can be told. Zero fields take the defaults in their comments.
type Options struct {
	// Now decides expiry. Defaults to time.Now.
	Now func() time.Time
}

// A Store is a record.Store and a record.Lister. It keeps to its own keys of the database, so that others can share it.
type Store struct {
	db     *pebble.DB
	now    func() time.Time
	encode *buffers
	groups *latches
	tokens *latches
}

var (
	_ record.Store  = (*Store)(nil)
	_ record.Lister = (*Store)(nil)
)

// New makes the store of a database that the caller opened, and closes after the last call.
func New(db *pebble.DB, options Options) *Store {
	if options.Now == nil {
		options.Now = time.Now
	}
	return &Store{db: db, now: options.Now, encode: newBuffers(), groups: newLatches(), tokens: newLatches()}
}

// Load implements record.Store. Each record is read by itself: the caller's conditions are on single records too.
func (s *Store) Load(ctx context.Context, groups []record.GroupKey, tokens []record.TokenKey) ([]record.Group, []record.Token, error) {
	gs := make([]record.Group, len(groups))
	for i, key := range groups {
		g, err := s.loadGroup(ctx, key)
		if err != nil {
			return nil, nil, fmt.Errorf("load group %s: %w", key, err)
		}
		gs[i] = g
	}
	ts := make([]record.Token, len(tokens))
	for i, key := range tokens {
		t, err := s.loadToken(ctx, key)
		if err != nil {
			return nil, nil, fmt.Errorf("load token %s: %w", key, err)
		}
		ts[i] = t
	}
	return gs, ts, nil
}

func (s *Store) loadGroup(ctx context.Context, key record.GroupKey) (record.Group, error) {
	if err := ctx.Err(); err != nil {
		return record.Group{}, err
	}
	dbKey := groupKey(key)
	latch := s.groups.lock(dbKey)
	defer latch.Unlock()
	latch.forget()
	g, err := s.group(key, dbKey)
	if err != nil {
		return record.Group{}, err
	}
	latch.remember(dbKey, headOf(&g))
	return g, nil
}

// group reads a record, or one of version 0; the caller must hold the latch.
func (s *Store) group(key record.GroupKey, dbKey []byte) (record.Group, error) {
	g := record.Group{Key: key}
	err := s.view(dbKey, func(r checked) (err error) {
		g, err = decodeGroup(r, key)
		return err
	})
	return g, err
}

func headOf(g *record.Group) head {
	return head{incarnation: g.Incarnation, version: g.Version, expires: micros(g.Expires)}
}

// view shows f the unexpired record under a key, if there is one. The record is valid until f returns.
func (s *Store) view(key []byte, f func(checked) error) error {
	value, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	r, err := open(key, value)
	if err == nil && !expired(r.expires, s.now()) {
		err = f(r)
	}
	return errors.Join(err, closer.Close())
}

// Commit implements record.Store. It does not recognise its own write: nothing between a caller and this store repeats one.
func (s *Store) Commit(ctx context.Context, c record.Commit) error {
	if err := s.commit(ctx, &c); err != nil {
		return fmt.Errorf("commit group %s: %w", c.Next.Key, err)
	}
	return nil
}

func (s *Store) commit(ctx context.Context, c *record.Commit) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	key := groupKey(c.Next.Key)
	latch := s.groups.lock(key)
	defer latch.Unlock()
	pending, err := s.condition(latch, key, c)
	if err != nil {
		return err
	}
	batch := s.db.NewBatch()
	if err := s.fill(batch, key, c, pending); err != nil {
		return errors.Join(err, batch.Close())
	}
	latch.forget()
	if err := s.apply(batch, pebble.Sync); err != nil {
		return err
	}
	latch.remember(key, headOf(&c.Next))
	return nil
}

// condition checks a commit against the stored record, and gives the pending entries to write.
func (s *Store) condition(latch *latch, key []byte, c *record.Commit) ([]record.Pending, error) {
	pending := c.Next.Pending
	stored, known := latch.recall(key)
	if !known || carries(c) {
		g, err := s.group(c.Next.Key, key)
		if err != nil {
			return nil, err
		}
		stored, pending = headOf(&g), carry(c, g.Pending)
	}
	stored = stored.at(s.now())
	if stored.version != c.Loaded.Version || stored.version != 0 && stored.incarnation != c.Loaded.Incarnation {
		return nil, record.ErrConflict
	}
	return pending, nil
}

// fill puts a commit into a batch.
func (s *Store) fill(batch *pebble.Batch, key []byte, c *record.Commit, pending []record.Pending) error {
	next := c.Next
	next.Pending = pending
	if err := s.encode.put(batch, key, func(e *encoder) { encodeGroup(e, &next) }); err != nil {
		return err
	}
	for i := range c.Hold {
		h := &c.Hold[i]
		if err := s.encode.put(batch, heldKey(keyOf(&h.Message)), func(e *encoder) { encodeHeld(e, h) }); err != nil {
			return err
		}
	}
	for _, k := range c.Unhold {
		if err := batch.Delete(heldKey(k), nil); err != nil {
			return err
		}
	}
	return nil
}

// apply writes a batch. A batch that failed is left to the collector: the log may still refer to it.
func (s *Store) apply(batch *pebble.Batch, sync *pebble.WriteOptions) error {
	if err := batch.Commit(sync); err != nil {
		return err
	}
	return batch.Close()
}

// Clear implements record.Store.
func (s *Store) Clear(ctx context.Context, c record.Clear) error {
	if err := s.clear(ctx, &c); err != nil {
		return fmt.Errorf("clear group %s: %w", c.Group, err)
	}
	return nil
}

func (s *Store) clear(ctx context.Context, c *record.Clear) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	key := groupKey(c.Group)
	latch := s.groups.lock(key)
	defer latch.Unlock()
	g, err := s.group(c.Group, key)
	if err != nil || g.Version == 0 || g.Incarnation != c.Incarnation || !settle(&g, c) {
		return err
	}
	batch := s.db.NewBatch()
	if err := s.encode.put(batch, key, func(e *encoder) { encodeGroup(e, &g) }); err != nil {
		return errors.Join(err, batch.Close())
	}
	latch.forget()
	if err := s.apply(batch, pebble.NoSync); err != nil {
		return err
	}
	latch.remember(key, headOf(&g))
	return nil
}

// Held implements record.Store. It takes the group's latch: held messages are committed with the group.
func (s *Store) Held(ctx context.Context, from record.HeldKey, limit int) ([]record.Held, error) {
	defer s.groups.lock(groupKey(from.Group)).Unlock()
	held, err := s.heldFrom(ctx, from, limit)
	if err != nil {
		return nil, fmt.Errorf("read held messages of group %s: %w", from.Group, err)
	}
	return held, nil
}

func (s *Store) heldFrom(ctx context.Context, from record.HeldKey, limit int) (held []record.Held, err error) {
	err = s.walk(ctx, heldBounds(from), func(key, value []byte) (bool, error) {
		if len(held) >= limit {
			return false, nil
		}
		r, err := open(key, value)
		if err != nil {
			return false, fmt.Errorf("number %d: %w", sequenceOf(key), err)
		}
		h, err := decodeHeld(r)
		if err != nil {
			return false, fmt.Errorf("number %d: %w", sequenceOf(key), err)
		}
		held = append(held, h)
		return true, nil
	})
	return held, err
}
