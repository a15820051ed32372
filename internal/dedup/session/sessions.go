package session

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/record"
)

// The reserved streams of the records. No message can have them: names of streams begin with a
// letter or a digit.
const (
	sessionsStream = "~sessions"
	poolsStream    = "~pools"
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
	// Attempts is how many tries of one entry may fail. Defaults to 5.
	Attempts uint64
	// DeadLetter says that an entry becomes a dead letter after that many tries. By default Fail
	// reports that the consumer has to stop.
	DeadLetter bool
	// Keep is how long the record of a retired session is kept. It must be longer than any
	// transaction of a fenced consumer can last. Defaults to 30 days.
	Keep time.Duration
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
	if cfg.Attempts == 0 {
		cfg.Attempts = 5
	}
	if cfg.Keep == 0 {
		cfg.Keep = 30 * 24 * time.Hour
	}
	if cfg.Ranges == 0 {
		cfg.Ranges = 64
	}
	return &Sessions{store: store, cfg: cfg}
}

// An ID names a session.
type ID struct {
	Stream string
	// Group is the group whose log the session reads, or empty for a session of the stream's pool.
	Group string
	Name  string
}

// separator is between the parts of a record's key: it is in no valid name.
const separator = "\x1f"

func (id ID) key() record.GroupKey {
	return record.GroupKey{Stream: sessionsStream, Group: id.Stream + separator + id.Group + separator + id.Name}
}

func (id ID) pooled() bool { return id.Group == "" }

func (id ID) poolKey() record.GroupKey { return record.GroupKey{Stream: poolsStream, Group: id.Stream} }

func (id ID) logKey() record.GroupKey { return record.GroupKey{Stream: id.Stream, Group: id.Group} }

// Partition returns the group whose log is the partition with a number, counted from 0.
func Partition(stream string, number uint64) record.GroupKey {
	return record.GroupKey{Stream: stream, Group: strconv.FormatUint(number, 10)}
}

// maxName is the longest name of a session or holder, in bytes.
const maxName = 128

func (s *Sessions) validate(id ID) error {
	for _, f := range []struct{ field, value string }{{"stream", id.Stream}, {"group", id.Group}, {"session", id.Name}} {
		if f.field != "group" && (f.value == "" || len(f.value) > maxName) {
			return &record.InvalidError{Field: f.field, Rule: fmt.Sprintf("must be 1 to %d bytes", maxName)}
		}
		if strings.ContainsFunc(f.value, func(r rune) bool { return r < ' ' || r == 0x7f || r == utf8.RuneError }) {
			return &record.InvalidError{Field: f.field, Rule: "must be UTF-8 text without control characters"}
		}
	}
	if _, ok := s.cfg.Pools[id.Stream]; !ok && id.pooled() {
		return ErrNoPool
	}
	return nil
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

// write replaces the state of a record that was loaded. If another write came first, the error
// wraps [record.ErrConflict].
func (s *Sessions) write(ctx context.Context, loaded record.Group, data []byte, expires time.Time) error {
	now := s.cfg.Now()
	next := loaded
	next.Version, next.State, next.Expires = loaded.Version+1, data, expires
	if loaded.Version == 0 {
		next.Incarnation = incarnation(now)
	}
	if err := s.store.Commit(ctx, record.Commit{Loaded: loaded, Next: next, Attempt: s.cfg.NewID()}); err != nil {
		return fmt.Errorf("write session: %w", err)
	}
	return nil
}

// never is the expiry of a record that does not expire. It is not the zero time, which sweeps of
// groups take for a missing one.
func never() time.Time { return time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) }

// writeState writes the state of a session. It expires only after the pool has taken back the
// unread entries: a new life of the name would not know them.
func (s *Sessions) writeState(ctx context.Context, loaded record.Group, st *state) error {
	expires := never()
	if st.Returned {
		expires = s.cfg.Now().Add(s.cfg.Keep)
	}
	return s.write(ctx, loaded, st.encode(), expires)
}

// incarnation returns the incarnation of a record that is created now: Unix milliseconds.
func incarnation(now time.Time) uint64 {
	return uint64(max(1, now.UnixMilli()))
}
