package dedup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"time"

	"github.com/effectively-once/once/internal/admission"
	"github.com/effectively-once/once/internal/outbox"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/relay"
)

// Config is what an engine is made of. Zero fields take the defaults in their comments.
type Config struct {
	Streams []record.Stream
	Store   record.Store
	Queues  record.Queues
	// Senders are the destinations, by name.
	Senders map[string]record.Sender
	// Sequenced names the destinations whose deliveries are numbered without gaps for each group: other streams.
	Sequenced map[string]bool
	// Blobs may be nil where no handler makes blobs.
	Blobs record.Blobs
	// Now defaults to time.Now.
	Now func() time.Time
	// NewID makes unique names for attempts. Defaults to 128 random bits.
	NewID func() string
	// Pause waits before round n (1, 2, …) of a contended batch. Defaults to exponential backoff with full jitter from 5 ms to 1 s.
	Pause func(ctx context.Context, n int) error
	// LateDelay is the delay of triggers that are sent ahead of what they are for, by Call before it commits, and by Refuse for an earlier delivery that may yet commit: longer than two
	// deliveries, one after the other, may be worked on. Defaults to 15 minutes, the longest that SQS has; where a delivery may take half of that, what comes later is left to a sweep.
	LateDelay time.Duration
	// Log defaults to discarding.
	Log *slog.Logger
	// Observe is told what happened; defaults to nothing. It must not block.
	Observe func(record.Event)
}

// An Engine runs the protocol. It keeps nothing between calls; any number of engines may share a store.
type Engine struct {
	cfg       Config
	streams   record.Streams
	publisher *outbox.Publisher
	relay     *relay.Relay
	desk      *admission.Desk
}

// New checks the configuration. It does no work.
func New(cfg Config) (*Engine, error) {
	if cfg.Store == nil || cfg.Queues == nil {
		return nil, errors.New("make engine: a store and queues are required")
	}
	cfg = cfg.withDefaults()
	streams, err := record.NewStreams(cfg.Streams)
	if err != nil {
		return nil, fmt.Errorf("make engine: %w", err)
	}
	publisher := outbox.New(outbox.Config{
		Streams: streams, Store: cfg.Store, Queues: cfg.Queues, Senders: cfg.Senders, Blobs: cfg.Blobs, Now: cfg.Now, Observe: cfg.Observe,
	})
	relays := relay.New(relay.Config{
		Streams: streams, Sequenced: cfg.Sequenced, Store: cfg.Store, Publisher: publisher, Now: cfg.Now, NewID: cfg.NewID, Log: cfg.Log, Observe: cfg.Observe,
	})
	desk := admission.New(admission.Config{
		Streams: streams, Store: cfg.Store, Queues: cfg.Queues, Now: cfg.Now, NewID: cfg.NewID, Recordless: relays.Takes, LateDelay: cfg.LateDelay, Log: cfg.Log,
	})
	return &Engine{cfg: cfg, streams: streams, publisher: publisher, relay: relays, desk: desk}, nil
}

func (c Config) withDefaults() Config {
	if c.Now == nil {
		c.Now = time.Now //nolint:forbidigo // the one default clock
	}
	now := c.Now
	c.Now = func() time.Time { return now().Round(0) } // without the monotonic reading: ages are compared with those of blobs, which only the wall clock knows
	if c.NewID == nil {
		c.NewID = rand.Text
	}
	if c.Pause == nil {
		c.Pause = pause
	}
	if c.LateDelay == 0 {
		c.LateDelay = 15 * time.Minute
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Observe == nil {
		c.Observe = func(record.Event) {}
	}
	return c
}

// pause waits with full jitter, so that the losers of a conditional write do not meet again at once.
func pause(ctx context.Context, n int) error {
	limit := min(5*time.Millisecond<<min(n-1, 10), time.Second)
	t := time.NewTimer(time.Duration(mathrand.Int64N(int64(limit)))) //nolint:gosec // jitter, not a secret
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Stream gives a configured stream with its defaults filled in.
func (e *Engine) Stream(name string) (record.Stream, bool) {
	s, ok := e.streams[name]
	return s, ok
}

func (e *Engine) observe(name record.EventName, stream string, count int) {
	if count > 0 {
		e.cfg.Observe(record.Event{Name: name, Stream: stream, Count: count})
	}
}
