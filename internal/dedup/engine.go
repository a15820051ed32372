package dedup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/backoff"
	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/dedup/outbox"
	"github.com/effectively-once/once/internal/dedup/relay"
	"github.com/effectively-once/once/internal/record"
)

// Config configures an engine. Zero fields take the defaults in their comments.
type Config struct {
	Streams []record.Stream
	Store   record.Store
	Queues  record.Queues
	// Senders are the destinations, by name.
	Senders map[string]record.Sender
	// Sequenced names the destinations whose deliveries are numbered without gaps for each group:
	// other streams, and other systems.
	Sequenced map[string]bool
	// Numbered names those of Sequenced that take no effect without a number: they can't get a
	// delayed one.
	Numbered map[string]bool
	// Unrelayed names the destinations that effects of messages of other systems do not go to.
	Unrelayed map[string]bool
	// Restores are the times at which the store was put back to an older copy. Defaults to none.
	Restores record.Restores
	// Large says that the store and the queues hold bodies of [record.MaxBody]. Otherwise every
	// stream takes at most [record.SmallBody].
	Large bool
	// CheckDelay returns an error if Queues can't hold an effect or a message of a timer until it
	// is due: then the attempt fails. It does no input or output. Its argument has an identity of
	// the greatest length instead of its own. Defaults to none.
	CheckDelay func(*record.Delayed) error
	// Blobs may be nil if no handler makes blobs.
	Blobs record.Blobs
	// Now defaults to time.Now.
	Now func() time.Time
	// NewID makes unique names for attempts. Defaults to 128 random bits.
	NewID func() string
	// Pause waits before round n (1, 2, …) of a contended batch. Defaults to exponential backoff
	// with full jitter from 5 ms to 1 s.
	Pause func(ctx context.Context, n int) error
	// Random returns a number in [0, n), for the default of Pause. Defaults to that of
	// math/rand/v2.
	Random func(n int64) int64
	// Recalls says that all workers of the store are in this process, and that the process looks at
	// every group with pending effects when it starts. Direct then needs no trigger that outlives
	// it, and publishes effects itself: it sends a trigger only if that fails.
	Recalls bool
	// LateDelay is the delay of triggers that are sent before their effects are committed: by Call
	// and Direct before their commits, and by Refuse because an earlier delivery may still commit.
	// It should be longer than two deliveries of a message take, one after the other. Defaults to
	// 15 minutes, the longest delay in SQS. If a single delivery may take longer than half of that,
	// the sweep publishes effects that are committed after the trigger.
	LateDelay time.Duration
	// KeepDone lets the record of a group take the place of the done token of a message that is a
	// group of its own, on the streams that qualify: see [record.Streams.KeepDone]. It is for
	// stores that are paid by the write, and has no effect on one that commits done tokens. Every
	// engine understands such records, whether or not it writes them.
	KeepDone bool
	// Running is shared by the engines of one process that follow one another. Defaults to one of
	// its own.
	Running *admission.Running
	// Parallel is how many groups of a batch are processed at the same time. Defaults to 64.
	Parallel int
	// Log defaults to discarding.
	Log *slog.Logger
	// LogKeys writes the keys of messages to the log, beside their hashes.
	LogKeys bool
	// Observe is called with each event; by default events are dropped. It must not block.
	Observe func(record.Event)
	// Appended is called after a commit that appended entries to the log of a group. It must not
	// block. Defaults to nothing. It is not called if the result of the commit is unknown.
	Appended func(record.GroupKey)
}

// An Engine runs the protocol. In memory it keeps only which groups its calls work on, so any
// number of engines may share a store.
type Engine struct {
	cfg         Config
	commitsDone bool // see [record.CommitsDone]
	// see [record.CommitsTogether]
	commitsTogether bool
	streams         record.Streams
	publisher       *outbox.Publisher
	relay           *relay.Relay
	issuer          *admission.Issuer
	memory          sync.Pool // of *memory
}

// New checks the configuration and returns an engine. It does no input or output.
func New(cfg Config) (*Engine, error) {
	if cfg.Store == nil || cfg.Queues == nil {
		return nil, errors.New("make engine: a store and queues are required")
	}
	cfg = cfg.withDefaults()
	streams, err := record.NewStreams(cfg.Streams)
	if err != nil {
		return nil, fmt.Errorf("make engine: %w", err)
	}
	streams.Limit(cfg.Large)
	if cfg.KeepDone && !record.CommitsDone(cfg.Store) {
		streams.KeepDone()
	}
	publisher := outbox.New(outbox.Config{
		Streams: streams, Store: cfg.Store, Queues: cfg.Queues, Senders: cfg.Senders, Numbered: cfg.Numbered, Restores: cfg.Restores, Large: cfg.Large, CheckDelay: cfg.CheckDelay, Blobs: cfg.Blobs, Now: cfg.Now, Observe: cfg.Observe,
	})
	relays := relay.New(relay.Config{
		Streams: streams, Sequenced: cfg.Sequenced, Unrelayed: cfg.Unrelayed, Store: cfg.Store, Queues: cfg.Queues, Publisher: publisher, Running: cfg.Running, Now: cfg.Now, NewID: cfg.NewID, Observe: cfg.Observe,
	})
	issuer := admission.New(admission.Config{
		Streams: streams, Store: cfg.Store, Queues: cfg.Queues, Restores: cfg.Restores, Now: cfg.Now, NewID: cfg.NewID, Recordless: relays.Takes, LateDelay: cfg.LateDelay, Log: cfg.Log, LogKeys: cfg.LogKeys,
	})
	return &Engine{cfg: cfg, commitsDone: record.CommitsDone(cfg.Store), commitsTogether: record.CommitsTogether(cfg.Store), streams: streams, publisher: publisher, relay: relays, issuer: issuer}, nil
}

func (c Config) withDefaults() Config {
	if c.Now == nil {
		c.Now = time.Now //nolint:forbidigo // the one default clock
	}
	now := c.Now
	// Round strips the monotonic reading: ages are compared with those of blobs, which have
	// wall-clock times.
	c.Now = func() time.Time { return now().Round(0) }
	if c.NewID == nil {
		c.NewID = rand.Text
	}
	if c.Random == nil {
		c.Random = mathrand.Int64N
	}
	if c.Pause == nil {
		random := c.Random
		c.Pause = func(ctx context.Context, n int) error {
			return backoff.Sleep(ctx, backoff.FullOf(random, n, 5*time.Millisecond, time.Second))
		}
	}
	if c.LateDelay == 0 {
		c.LateDelay = 15 * time.Minute
	}
	if c.Running == nil {
		c.Running = &admission.Running{}
	}
	if c.Parallel == 0 {
		c.Parallel = 64
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Observe == nil {
		c.Observe = func(record.Event) {}
	}
	if c.Appended == nil {
		c.Appended = func(record.GroupKey) {}
	}
	return c
}

// Stream returns a configured stream with its defaults filled in.
func (e *Engine) Stream(name string) (record.Stream, bool) {
	s, ok := e.streams[name]
	return s, ok
}

// StreamNames returns the names of all streams, sorted.
func (e *Engine) StreamNames() []string { return slices.Sorted(maps.Keys(e.streams)) }

func (e *Engine) observe(name record.EventName, stream string, count int) {
	if count > 0 {
		e.cfg.Observe(record.Event{Name: name, Stream: stream, Count: count})
	}
}
