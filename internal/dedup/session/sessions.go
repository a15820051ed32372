package session

import (
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/backoff"
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
	// Pause waits before round n (1, 2, …) of a step that others have made impossible. Defaults to
	// exponential backoff with full jitter from 5 ms to half a second.
	Pause func(ctx context.Context, n int) error
	// Alone says that this process alone serves the sessions of the store. Then a renewal is kept
	// in memory, and costs no write. See presence.
	Alone bool
	// Before are the sessions that these replace, in the same process and on the same store. They
	// keep what the earlier ones have in memory. Defaults to none.
	Before *Sessions
	// Keep is how long the record of a retired session is kept. It must be longer than any
	// transaction of a fenced consumer can last. Defaults to 30 days.
	Keep time.Duration
	// Queues get the triggers for publishing, and dead letters. Without them, commits can't have
	// effects, and entries can't become dead letters.
	Queues record.Queues
	// Enqueue puts a message on the queue of its partition, behind those that are there. Without
	// it, no stream can be ended.
	Enqueue func(ctx context.Context, m record.Message) error
	// Feasible returns an error for effects that can't be published. Defaults to none.
	Feasible func(effects []record.Effect) error
	// Numbered names the streams whose messages need a source and a number.
	Numbered map[string]bool
	// Restores, Sequenced, Recalls and LateDelay are those of the engine. LateDelay defaults to
	// 15 minutes.
	Restores  record.Restores
	Sequenced map[string]bool
	Recalls   bool
	LateDelay time.Duration
	// Records lists the group records of a reserved stream in the order of their keys, after a key,
	// for List. Defaults to nil: List returns the names that the pool knows.
	Records func(ctx context.Context, stream string, after record.GroupKey, limit int) ([]record.Group, error)
	// Ranges is how many ranges of entries the pool keeps for a session: if a consumer's store is
	// restored to a number before them, the entries after it can't be read again. Defaults to 64.
	Ranges int
	// MaxPool is how large the record of a pool may be before it takes no further session, in
	// bytes. Defaults to 256 KiB.
	MaxPool int
	// Retain is how long an entry of a stream's logs can be read, by stream. It is needed to find
	// entries that wait for long.
	Retain map[string]time.Duration
	// Observe is called with each event; by default events are dropped. It must not block.
	Observe func(record.Event)
	// Log defaults to discarding.
	Log *slog.Logger
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
	// Destinations get a message when all entries of an ended stream are processed. Defaults to
	// none.
	Destinations []string
}

// Sessions are the sessions of a store.
type Sessions struct {
	store    Store
	cfg      Config
	turns    map[string]*turn // by stream
	presence *presence        // nil if other processes serve sessions, too
	*ends
}

// ends has the state of the ends of streams.
type ends struct {
	mu      sync.Mutex
	settled map[string]bool      // the streams whose ends are complete
	told    map[string]time.Time // when it was last told that the end of a stream waits for sessions
}

// New returns the sessions of a store.
func New(store Store, cfg Config) *Sessions {
	cfg = cfg.withDefaults()
	s := &Sessions{store: store, cfg: cfg, turns: newTurns(cfg.Pools), ends: &ends{settled: map[string]bool{}, told: map[string]time.Time{}}}
	if b := cfg.Before; b != nil {
		s.cfg.Before = nil // otherwise the first sessions would never be freed
		s.presence, s.ends = b.presence, b.ends
		maps.Copy(s.turns, b.turns)
		return s
	}
	if cfg.Alone {
		s.presence = newPresence(cfg.Now())
	}
	return s
}

func (cfg Config) withDefaults() Config {
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
	if cfg.MaxPool == 0 {
		cfg.MaxPool = 256 << 10
	}
	if cfg.Pause == nil {
		cfg.Pause = func(ctx context.Context, n int) error {
			return backoff.Sleep(ctx, backoff.Full(n, 5*time.Millisecond, 500*time.Millisecond))
		}
	}
	if cfg.Observe == nil {
		cfg.Observe = func(record.Event) {}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return cfg
}
