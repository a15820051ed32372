package session

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/record"
)

// Store is the part of a store that sessions need.
type Store interface {
	log.Store
	Commit(ctx context.Context, c record.Commit) error
}

// Config has the settings of sessions.
type Config struct {
	// Pools are the pools by stream. The log of a single group needs none.
	Pools map[string]Pool
	// Now is the clock. Required.
	Now func() time.Time
	// NewID returns unique names for attempts to write. Defaults to 128 random bits.
	NewID func() string
	// Keep is how long the record of a retired session is kept. It must be longer than any
	// transaction of a fenced consumer can last. Defaults to 30 days.
	Keep time.Duration
	// Queues get the triggers for publishing, and dead letters. Without them, commits can't have
	// effects, and entries can't become dead letters.
	Queues record.Queues
	// Enqueue puts a message on the queue of its partition, behind those that are there. Without it,
	// no stream can be ended.
	Enqueue func(ctx context.Context, m record.Message) error
	// Feasible returns an error for effects that can't be published. Defaults to none.
	Feasible func(effects []record.Effect) error
	// Numbered names the streams whose messages need a source and a number.
	Numbered map[string]bool
	// Sequenced, Recalls and LateDelay are those of the engine. LateDelay defaults to 15 minutes.
	Sequenced map[string]bool
	Recalls   bool
	LateDelay time.Duration
	// Records lists the group records of a reserved stream in the order of their keys, after a key,
	// for List. Defaults to nil: List returns what the pool knows.
	Records func(ctx context.Context, stream string, after record.GroupKey, limit int) ([]record.Group, error)
	// Ranges is how many ranges of entries the pool keeps for a session: if a consumer's store is
	// restored to a number before them, the entries after it can't be read again. Defaults to 64.
	Ranges int
}

// Pool has the settings of one pool.
type Pool struct {
	// Partitions is how many logs the stream has, see [Partition]. Defaults to 1. If it falls, the
	// logs that were already read are still dealt.
	Partitions int
	// Window is how many entries a session may have that it has not processed. Defaults to 1000.
	// The pool deals a whole window at a time.
	Window uint64
	// ByPartition says that a partition belongs to one session, so that its entries are processed
	// in their order. By default every session takes entries of all partitions.
	ByPartition bool
	// Attempts is how many tries of one entry may fail. Defaults to 5.
	Attempts uint64
	// DeadLetter says that an entry becomes a dead letter after that many tries. By default Fail
	// reports that the consumer has to stop.
	DeadLetter bool
	// Destinations get a message when all entries of an ended stream are processed. Defaults to none.
	Destinations []string
}

// Sessions are the sessions of a store.
type Sessions struct {
	store Store
	cfg   Config
}

// New returns the sessions of a store.
func New(store Store, cfg Config) *Sessions {
	if cfg.NewID == nil {
		cfg.NewID = rand.Text
	}
	if cfg.Keep == 0 {
		cfg.Keep = 30 * 24 * time.Hour
	}
	if cfg.LateDelay == 0 {
		cfg.LateDelay = 15 * time.Minute
	}
	if cfg.Feasible == nil {
		cfg.Feasible = func([]record.Effect) error { return nil }
	}
	if cfg.Ranges == 0 {
		cfg.Ranges = 64
	}
	return &Sessions{store: store, cfg: cfg}
}

// rounds is how often a step is tried if others write the same record.
const rounds = 64

// errAgain says that another write came first: the step has to begin again.
var errAgain = fmt.Errorf("others write this record all the time: %w", record.ErrConflict)

// repeat runs a step until no other write comes between its loads and its write.
func repeat(ctx context.Context, step func() error) error {
	for range rounds {
		if err := step(); !errors.Is(err, record.ErrConflict) {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return errAgain
}

func (s *Sessions) load(ctx context.Context, keys ...record.GroupKey) ([]record.Group, error) {
	groups, _, err := s.store.Load(ctx, keys, nil)
	if err != nil {
		return nil, fmt.Errorf("load session: %w", err)
	}
	return groups, nil
}

func (s *Sessions) session(ctx context.Context, id ID) (record.Group, state, error) {
	groups, err := s.load(ctx, id.key())
	if err != nil {
		return record.Group{}, state{}, err
	}
	st, err := decodeState(&groups[0])
	return groups[0], st, err
}

// held returns the record of a session and its state, if the caller holds it.
func (s *Sessions) held(ctx context.Context, id ID, fence uint64) (record.Group, state, error) {
	g, st, err := s.session(ctx, id)
	if err == nil {
		err = st.check(fence)
	}
	return g, st, err
}

func (s *Sessions) pool(ctx context.Context, id ID) (record.Group, pool, error) {
	groups, err := s.load(ctx, id.poolKey())
	if err != nil {
		return record.Group{}, pool{}, err
	}
	p, err := decodePool(&groups[0])
	return groups[0], p, err
}

// write replaces a record that was loaded by next, with another state. If another write came first,
// the error wraps [record.ErrConflict].
func (s *Sessions) write(ctx context.Context, loaded, next record.Group, data []byte, expires time.Time) error {
	next.Version, next.State, next.Expires = loaded.Version+1, data, expires
	if loaded.Version == 0 {
		next.Incarnation = incarnation(s.cfg.Now())
	}
	if err := s.store.Commit(ctx, record.Commit{Loaded: loaded, Next: next, Attempt: s.cfg.NewID()}); err != nil {
		return fmt.Errorf("write session: %w", err)
	}
	return nil
}

// never is the expiry of a record that does not expire. It is not the zero time, which sweeps of
// groups take for a missing one.
func never() time.Time { return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }

// writeState writes the state of a session. The record expires only after the pool has taken back
// the unread entries: a new life of the name would not know them. As long as effects are pending it
// does not expire; the publisher then sets the expiry, from Retention.
func (s *Sessions) writeState(ctx context.Context, loaded, next record.Group, st *state) error {
	expires := never()
	if next.Retention = s.cfg.Keep; st.Returned {
		expires = s.cfg.Now().Add(s.cfg.Keep)
		if next.HasEffects() {
			expires = time.Time{}
		}
	}
	return s.write(ctx, loaded, next, st.encode(), expires)
}

// incarnation returns the incarnation of a record that is created now: Unix milliseconds.
func incarnation(now time.Time) uint64 {
	return uint64(max(1, now.UnixMilli()))
}
