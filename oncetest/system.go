// Package oncetest opens a system in memory, for tests of handlers: it processes at once, publishes at once, and shows what became real.
package oncetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/forward"
	"github.com/effectively-once/once/internal/lease"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

// A System is a [once.System] in memory. What [once.System.Process] and [once.System.Call] commit is published before they return.
type System struct {
	*once.System
	backend *backend
}

// New opens a system that has these destinations. Nothing needs to be closed.
func New(destinations ...string) *System {
	b := &backend{memory: &memory{
		store:        memstore.New(time.Now), //nolint:forbidigo // the one default clock
		destinations: destinations,
		sent:         map[string][]Effect{},
		staged:       map[string][]byte{},
		blobs:        map[string][]byte{},
	}}
	return &System{once.New(b), b}
}

// Restart gives a system on the same memory, without its streams and handlers: what a deployment of another version finds.
func (s *System) Restart() *System {
	next := s.backend.restart()
	return &System{once.New(next), next}
}

// An Effect is a message that was published.
type Effect struct {
	// Identity is the same however often the effect is sent: stream/group/number.
	Identity string
	// Group is the group at the destination.
	Group       string
	ContentType string
	Headers     map[string]string
	Body        string
}

// Sent gives what was published to a destination, in order.
func (s *System) Sent(destination string) []Effect {
	s.backend.mu.Lock()
	defer s.backend.mu.Unlock()
	return slices.Clone(s.backend.sent[destination])
}

// Blob gives a published object, nil where there is none.
func (s *System) Blob(key string) []byte {
	s.backend.mu.Lock()
	defer s.backend.mu.Unlock()
	return bytes.Clone(s.backend.blobs[key])
}

// State gives the state of a group, the zero value where it has none.
func State[S any](ctx context.Context, s *System, stream, group string) (S, error) {
	var state S
	groups, _, err := s.backend.store.Load(ctx, []record.GroupKey{{Stream: stream, Group: group}}, nil)
	if err != nil || len(groups[0].State) == 0 {
		return state, err
	}
	if err := json.Unmarshal(groups[0].State, &state); err != nil {
		return state, fmt.Errorf("decode state: %w", err)
	}
	return state, nil
}

// backend is one start of a system.
type backend struct {
	*memory
	engine *dedup.Engine
}

func (b *backend) restart() *backend { return &backend{memory: b.memory} }

// memory is what outlives a restart: the store, the queues, what was sent, the blobs.
type memory struct {
	store        *memstore.Store
	destinations []string

	mu        sync.Mutex
	triggered []record.GroupKey
	sent      map[string][]Effect
	staged    map[string][]byte
	blobs     map[string][]byte
}

func (b *backend) Start(streams []system.Stream) (system.Engine, error) {
	cfg := dedup.Config{Store: b.store, Queues: b, Blobs: b, Senders: map[string]record.Sender{}}
	for _, name := range b.destinations {
		cfg.Senders[name] = sender{b, name}
	}
	for _, s := range streams {
		for _, to := range s.Destinations {
			if !slices.Contains(b.destinations, to) {
				return nil, fmt.Errorf("stream %q: no destination %q", s.Name, to)
			}
		}
		s.Events = s.Destinations
		if s.Handler == nil {
			s.Handler, s.Stateless = forward.To(s.Destinations), true
		}
		cfg.Streams = append(cfg.Streams, s.Stream)
	}
	engine, err := dedup.New(cfg)
	b.engine = engine
	return b, err
}

// Process and Call publish what was committed before they return.

func (b *backend) Process(ctx context.Context, messages []record.Message) []record.Outcome {
	defer b.publish(ctx)
	return b.engine.Process(ctx, messages)
}

func (b *backend) Call(ctx context.Context, m record.Message) record.Outcome {
	defer b.publish(ctx)
	return b.engine.Call(ctx, m)
}

// publish does what the triggers ask for. The senders are in memory: only a context that has ended makes it fail, and then the next call finishes it.
func (b *backend) publish(ctx context.Context) {
	b.mu.Lock()
	groups := b.triggered
	b.triggered = nil
	b.mu.Unlock()
	if len(groups) == 0 {
		return
	}
	for i, err := range b.engine.Publish(ctx, groups) {
		if err != nil {
			_ = b.Trigger(ctx, groups[i:i+1], 0)
		}
	}
}

// Run has nothing to do but to wait: whatever is processed is published at once.
func (b *backend) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (b *backend) Handler() http.Handler { return http.NotFoundHandler() }
func (b *backend) Tokens() lease.Store   { return b.store }
func (b *backend) Close() error          { return nil }

// Trigger takes the triggers that follow a commit. Delayed ones are for crashes, which memory does not survive.
func (b *backend) Trigger(_ context.Context, groups []record.GroupKey, delay time.Duration) error {
	if delay > 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range groups {
		if !slices.Contains(b.triggered, g) {
			b.triggered = append(b.triggered, g)
		}
	}
	return nil
}

var errNoQueue = errors.New("a system in memory has no queues")

func (b *backend) Return(context.Context, []record.Message) error     { return errNoQueue }
func (b *backend) DeadLetter(context.Context, []record.Refused) error { return errNoQueue }

// A sender keeps what is sent to one destination.
type sender struct {
	*backend
	name string
}

func (s sender) Send(_ context.Context, deliveries []record.Delivery) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range deliveries {
		known := slices.ContainsFunc(s.sent[s.name], func(e Effect) bool { return e.Identity == d.Identity })
		if !known {
			s.sent[s.name] = append(s.sent[s.name], Effect{
				Identity: d.Identity, Group: d.Target,
				ContentType: d.Effect.ContentType, Headers: d.Effect.Headers, Body: string(d.Effect.Body),
			})
		}
	}
	return make([]error, len(deliveries))
}
