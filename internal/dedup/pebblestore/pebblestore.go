// Package pebblestore is a store in the embedded Pebble database. It is durable, and concurrent
// callers share an fsync.
//
// # Latches
//
// A conditional write reads the record, checks the condition and writes, under a latch of its key.
// Pebble makes a write visible before its log is synced. A reader that saw such a write could
// publish effects of a commit that a crash then undoes. So the latch is held until the sync is
// done, and readers take it too. The writes of different keys that come during a sync are combined
// into one batch with one sync, see [joiner].
//
// Writes that may be lost (see record.Store, Durability) are not synced. They share the write-ahead
// log with all others, so a crash loses such a write only together with all later ones.
//
// # Limits
//
// Times are kept to the microsecond. Empty slices and maps read as nil. A database has one Store,
// in one process, and nothing else writes groups and tokens.
package pebblestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/dedup/encoding"
	"github.com/effectively-once/once/internal/pebbledb/presence"
	"github.com/effectively-once/once/internal/record"
)

// Options configure a store. Zero fields take the defaults in their comments.
type Options struct {
	// Now decides expiry. Defaults to time.Now.
	Now func() time.Time
	// Presence saves lookups of groups and tokens that do not exist. Defaults to none.
	Presence *presence.Filter
}

// A Store is a record.Store and a record.Lister. It uses only its own keys of the database, which
// others can share.
type Store struct {
	db       *pebble.DB
	presence *presence.Filter
	now      func() time.Time
	encode   *buffers
	seed     maphash.Seed // of the hashes of keys
	groups   *latches
	tokens   *latches
	heads    *heads
	synced   joiner
}

var (
	_ record.Store           = (*Store)(nil)
	_ record.DoneCommitter   = (*Store)(nil)
	_ record.GroupsCommitter = (*Store)(nil)
	_ record.Lister          = (*Store)(nil)
	_ record.LogReader       = (*Store)(nil)
)

// New returns the store of a database that the caller opened, and closes after the last call.
func New(db *pebble.DB, options Options) *Store {
	if options.Now == nil {
		options.Now = time.Now
	}
	s := &Store{
		db: db, presence: options.Presence, now: options.Now,
		encode: newBuffers(), seed: maphash.MakeSeed(), groups: &latches{}, tokens: &latches{}, heads: &heads{},
	}
	s.synced.db = db
	s.synced.apply = func(batch *pebble.Batch) error { return s.writeBatch(batch, pebble.Sync) }
	return s
}

// Load implements record.Store. It holds the latches of all its keys together, because it reads one
// snapshot, and every record in it must be durable.
func (s *Store) Load(ctx context.Context, groups []record.GroupKey, tokens []record.TokenKey) ([]record.Group, []record.Token, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, fmt.Errorf("load: %w", err)
	}
	var memory keyMemory
	places := make([]place, 0, fewKeys)
	for _, key := range groups {
		places = append(places, s.place(memory.group(key)))
	}
	for _, key := range tokens {
		places = append(places, s.place(memory.token(key)))
	}
	groupPlaces, tokenPlaces := places[:len(groups)], places[len(groups):]
	defer s.groups.lockAll(groupPlaces).Unlock()
	defer s.tokens.lockAll(tokenPlaces).Unlock()
	gs, ts := make([]record.Group, len(groups)), make([]record.Token, len(tokens))
	if err := s.loadAll(groups, tokens, places, gs, ts); err != nil {
		return nil, nil, err
	}
	return gs, ts, nil
}

// loadAll reads groups and tokens of one snapshot into gs and ts. The caller holds their latches.
func (s *Store) loadAll(groups []record.GroupKey, tokens []record.TokenKey, places []place, gs []record.Group, ts []record.Token) (err error) {
	r := reader{store: s}
	defer func() { err = errors.Join(err, r.close()) }()
	for i, key := range groups {
		if gs[i], err = s.loadGroup(&r, key, places[i]); err != nil {
			return fmt.Errorf("load group %s: %w", key, err)
		}
	}
	for i, key := range tokens {
		if ts[i], err = s.token(&r, key, places[len(groups)+i].key); err != nil {
			return fmt.Errorf("load token %s: %w", key, err)
		}
	}
	return nil
}

func (s *Store) place(key []byte) place { return place{key: key, hash: maphash.Bytes(s.seed, key)} }

// loadGroup reads a record and remembers its head, because a commit of the group usually follows.
func (s *Store) loadGroup(r *reader, key record.GroupKey, at place) (record.Group, error) {
	g, err := s.group(r, key, at.key)
	if err != nil {
		s.heads.forget(at)
		return record.Group{}, err
	}
	s.heads.remember(at, headOf(&g))
	return g, nil
}

// group reads a record, or returns one of version 0. The caller must hold the latch.
func (s *Store) group(r *reader, key record.GroupKey, dbKey []byte) (record.Group, error) {
	c, ok, err := r.view(dbKey)
	if !ok || err != nil {
		return record.Group{Key: key}, err
	}
	return decodeGroup(c, key)
}

// groupNow is group with a new iterator.
func (s *Store) groupNow(key record.GroupKey, dbKey []byte) (record.Group, error) {
	r := reader{store: s}
	g, err := s.group(&r, key, dbKey)
	return g, errors.Join(err, r.close())
}

func headOf(g *record.Group) head {
	return head{incarnation: g.Incarnation, version: g.Version, expires: encoding.Micros(g.Expires)}
}

// Commit implements record.Store. It does not recognise its own write, because nothing between the
// caller and this store retries.
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
	var memory keyMemory
	at := s.place(memory.group(c.Next.Key))
	defer s.groups.lock(at).Unlock()
	pending, err := s.condition(at, c)
	if err != nil {
		return err
	}
	batch := s.db.NewBatch()
	if err := s.fill(batch, at.key, c, pending); err != nil {
		return errors.Join(err, batch.Close())
	}
	// A caller that reads a token as done acknowledges its message, so the commit must be durable.
	defer s.lockTokens(c.Done).Unlock()
	s.heads.forget(at)
	if err := s.apply(batch, pebble.Sync); err != nil {
		return err
	}
	s.heads.remember(at, headOf(&c.Next))
	return nil
}

// CommitsTogether implements record.GroupsCommitter.
func (s *Store) CommitsTogether() bool { return true }

// CommitAll implements record.GroupsCommitter: one batch for all commits whose conditions hold.
func (s *Store) CommitAll(ctx context.Context, commits []record.Commit) []error {
	errs := make([]error, len(commits))
	if err := s.commitAll(ctx, commits, errs); err != nil {
		for i := range errs {
			errs[i] = cmp.Or(errs[i], err)
		}
	}
	for i, err := range errs {
		if err != nil {
			errs[i] = fmt.Errorf("commit group %s: %w", commits[i].Next.Key, err)
		}
	}
	return errs
}

// commitAll sets the errors of the commits that are not to be applied, and returns the error of the
// write of all others.
func (s *Store) commitAll(ctx context.Context, commits []record.Commit, errs []error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	places, tokens := make([]place, len(commits)), []place{}
	for i := range commits {
		places[i] = s.place(groupKey(commits[i].Next.Key))
		for n := range commits[i].Done {
			tokens = append(tokens, s.place(tokenKey(commits[i].Done[n].Key)))
		}
	}
	defer s.groups.lockAll(places).Unlock()
	batch := s.db.NewBatch()
	for i := range commits {
		var pending []record.Pending
		if pending, errs[i] = s.condition(places[i], &commits[i]); errs[i] != nil {
			continue
		}
		if err := s.fill(batch, places[i].key, &commits[i], pending); err != nil {
			return errors.Join(err, batch.Close())
		}
	}
	if batch.Empty() {
		return batch.Close()
	}
	defer s.tokens.lockAll(tokens).Unlock()
	for _, at := range places {
		s.heads.forget(at)
	}
	if err := s.apply(batch, pebble.Sync); err != nil {
		return err
	}
	for i, at := range places {
		if errs[i] == nil {
			s.heads.remember(at, headOf(&commits[i].Next))
		}
	}
	return nil
}

// condition checks a commit against the stored record, and returns the pending entries to write.
func (s *Store) condition(at place, c *record.Commit) ([]record.Pending, error) {
	pending := c.Next.Pending
	stored, known := s.heads.recall(at)
	if !known || carries(c) {
		g, err := s.groupNow(c.Next.Key, at.key)
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
	if err := s.encode.put(batch, key, func(e *encoding.Encoder) { encodeGroup(e, &next) }); err != nil {
		return err
	}
	for i := range c.Hold {
		h := &c.Hold[i]
		if err := s.encode.put(batch, heldKey(keyOf(&h.Message)), func(e *encoding.Encoder) { encodeHeld(e, h) }); err != nil {
			return err
		}
	}
	for _, k := range c.Unhold {
		if err := batch.Delete(heldKey(k), nil); err != nil {
			return err
		}
	}
	for i := range c.Append {
		x := &c.Append[i]
		key := chunkKey(x.Group, x.Incarnation, x.Last)
		if err := s.encode.put(batch, key, func(e *encoding.Encoder) { encodeChunk(e, x) }); err != nil {
			return err
		}
	}
	for i := range c.Done {
		if err := s.putToken(batch, &c.Done[i]); err != nil {
			return err
		}
	}
	return nil
}

// CommitsDone implements record.DoneCommitter.
func (s *Store) CommitsDone() bool { return true }

// apply writes a batch. All writes of the store go through it, because the filter of keys must know
// each key before it can be read. If it fails, the batch is not closed, because the log may still
// refer to it.
//
// Synced writes are combined, see [joiner].
func (s *Store) apply(batch *pebble.Batch, sync *pebble.WriteOptions) error {
	if sync.Sync {
		return s.synced.write(batch)
	}
	return s.writeBatch(batch, sync)
}

func (s *Store) writeBatch(batch *pebble.Batch, sync *pebble.WriteOptions) error {
	if err := s.presence.Commit(batch, sync); err != nil {
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
	at := s.place(groupKey(c.Group))
	defer s.groups.lock(at).Unlock()
	g, err := s.groupNow(c.Group, at.key)
	if err != nil || g.Incarnation != c.Incarnation || !settle(&g, c) {
		return err
	}
	batch := s.db.NewBatch()
	if err := s.encode.put(batch, at.key, func(e *encoding.Encoder) { encodeGroup(e, &g) }); err != nil {
		return errors.Join(err, batch.Close())
	}
	s.heads.forget(at)
	if err := s.apply(batch, pebble.NoSync); err != nil {
		return err
	}
	s.heads.remember(at, headOf(&g))
	return nil
}

// Held implements record.Store. It takes the group's latch, because held messages are committed
// with the group.
func (s *Store) Held(ctx context.Context, from record.HeldKey, limit int) ([]record.Held, error) {
	defer s.groups.lock(s.place(groupKey(from.Group))).Unlock()
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
