// Package oncetest opens a system in memory, for tests of handlers. It processes and publishes
// without delay, and shows the committed results.
package oncetest

import (
	"bytes"
	"cmp"
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
	"github.com/effectively-once/once/internal/dedup/lease"
	"github.com/effectively-once/once/internal/dedup/memstore"
	"github.com/effectively-once/once/internal/handler"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

// A System is a [once.System] in memory. [once.System.Process] and [once.System.Call] publish their
// effects before they return.
type System struct {
	*once.System
	backend *backend
}

// New opens a system with these destinations. It need not be closed.
//
// The clock of the system stands at the time of New, in whole milliseconds, and moves only by
// [System.Advance].
func New(destinations ...string) *System {
	m := &memory{
		now:          time.Now().Truncate(time.Millisecond).UTC(), //nolint:forbidigo // the one default clock
		destinations: destinations,
		sent:         map[string][]Effect{},
		staged:       map[string][]byte{},
		blobs:        map[string][]byte{},
	}
	m.store = memstore.New(m.clock)
	return open(&backend{memory: m})
}

// Restart returns a system on the same memory, without its streams and handlers, as if another
// version had been deployed.
func (s *System) Restart() *System {
	return open(&backend{memory: s.backend.memory})
}

func open(b *backend) *System { return &System{system.New(b).(*once.System), b} }

// An Effect is a published message.
type Effect struct {
	// Identity is stream/group/number: the same for every copy of the effect.
	Identity string
	// Group is the group at the destination.
	Group       string
	ContentType string
	Headers     map[string]string
	Body        string
}

// Sent returns the effects that were published to a destination, in order. It panics if the system
// has no such destination: the name is misspelt.
func (s *System) Sent(destination string) []Effect {
	s.backend.mu.Lock()
	defer s.backend.mu.Unlock()
	if !slices.Contains(s.backend.destinations, destination) {
		panic(fmt.Sprintf("oncetest: there is no destination %q, but %q", destination, s.backend.destinations))
	}
	return slices.Clone(s.backend.sent[destination])
}

// Blob returns a published object, or nil if there is none.
func (s *System) Blob(key string) []byte {
	s.backend.mu.Lock()
	defer s.backend.mu.Unlock()
	return bytes.Clone(s.backend.blobs[key])
}

// State returns the state of a group, or the zero value if it has none.
func State[S any](ctx context.Context, s *System, stream, group string) (S, error) {
	var state S
	if engine := s.backend.engine; engine != nil {
		if _, ok := engine.Stream(stream); !ok {
			return state, fmt.Errorf("load state: there is no stream %q", stream)
		}
	}
	groups, _, err := s.backend.store.Load(ctx, []record.GroupKey{{Stream: stream, Group: group}}, nil)
	if err != nil || len(groups[0].State) == 0 {
		return state, err
	}
	d := json.NewDecoder(bytes.NewReader(groups[0].State))
	d.DisallowUnknownFields() // a type that lacks a field is a mistake of the test
	if err := d.Decode(&state); err != nil {
		return state, fmt.Errorf("decode state of group %s/%s as %T: %w", stream, group, state, err)
	}
	return state, nil
}

// backend is one start of a system.
type backend struct {
	*memory
	engine *dedup.Engine
}

// memory is the part that outlives a restart: the store, the queues, the published effects, the
// blobs.
type memory struct {
	store        *memstore.Store
	destinations []string

	mu        sync.Mutex
	now       time.Time
	delayed   []record.Delayed
	triggered []record.GroupKey
	sent      map[string][]Effect
	staged    map[string][]byte
	blobs     map[string][]byte
}

func (b *backend) Start(streams []system.Stream) (system.Engine, error) {
	cfg := dedup.Config{Store: b.store, Now: b.clock, Queues: b, Blobs: b, Large: true, Senders: map[string]record.Sender{}}
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
			s.Handler, s.Stateless, s.LogMessages = dedup.ForwardTo(s.Destinations), true, s.LogRetention > 0
		} else {
			s.Timeout, s.Concurrency = cmp.Or(s.Timeout, record.DefaultTimeout), cmp.Or(s.Concurrency, record.DefaultConcurrency)
			s.Handler = handler.NewBounds(&s.Stream, nil, b.clock).Handler(s.Handler)
		}
		cfg.Streams = append(cfg.Streams, s.Stream)
	}
	engine, err := dedup.New(cfg)
	b.engine = engine
	return b, err
}

// Process and Call publish the effects that they commit before they return.

func (b *backend) Process(ctx context.Context, messages []record.Message) []record.Outcome {
	defer b.publish(ctx)
	return b.engine.Process(ctx, messages)
}

func (b *backend) Call(ctx context.Context, m record.Message) record.Outcome {
	defer b.publish(ctx)
	return b.engine.Call(ctx, m)
}

// publish publishes the triggered groups. The senders are in memory, so it fails only if the
// context has ended; then the next call publishes the rest.
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

// Run waits for the context, because effects are published during processing.
func (b *backend) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (b *backend) Handler() http.Handler { return http.NotFoundHandler() }
func (b *backend) Tokens() lease.Store   { return b.store }
func (b *backend) Close() error          { return nil }

// Trigger records the triggers after a commit. It ignores delayed ones, which are for crashes:
// memory does not survive a crash.
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

func (b *backend) Return(context.Context, []record.Message) error { return errNoQueue }

// DeadLetter forgets the letter: nothing reads it, and the outcome of the message has the reason.
func (b *backend) DeadLetter(context.Context, []record.Refused) error { return nil }

// A sender records the deliveries to one destination.
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
