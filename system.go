package once

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

// A System processes messages effectively once. What opens one lives in packages of its own, such as embedded; a handler never knows which.
//
// Streams are declared and handlers registered first; the system starts with [System.Start], or with the first call that needs it to run. After that it may be
// used concurrently.
type System struct {
	backend system.Backend

	mu       sync.Mutex
	streams  map[string]*declaration
	started  bool
	engine   system.Engine
	startErr error
}

// A declaration is what code said of one stream.
type declaration struct {
	config    StreamConfig
	declared  bool
	handler   func(allowed []string) record.Handler
	stateless bool
}

// New makes a system of a backend. It is for the packages that open one.
func New(b system.Backend) *System { return &System{backend: b, streams: map[string]*declaration{}} }

// Declare configures a stream in code. A stream that is declared and has no handler forwards its messages to its destinations. Declare panics where the name
// or the config is invalid, the stream was declared before, or the system has started.
func (s *System) Declare(stream string, c StreamConfig) {
	if err := c.validate(); err != nil {
		panic(fmt.Sprintf("once: declare stream %q: %v", stream, err))
	}
	s.change(stream, "declare stream", func(d *declaration) error {
		if d.declared {
			return errors.New("declared twice")
		}
		d.config, d.declared = c, true
		return nil
	})
}

// Handle registers the handler of a stream. Handle panics where the name is invalid, the stream has a handler already, or the system has started.
func Handle[S any](sys *System, stream string, h Handler[S]) {
	sys.change(stream, "handle stream", func(d *declaration) error {
		if h == nil || d.handler != nil {
			return errors.New("needs one handler")
		}
		var state S
		_, d.stateless = any(state).(Stateless)
		d.handler = func(allowed []string) record.Handler { return adapt(h, allowed) }
		return nil
	})
}

// change changes a declaration. What goes wrong is a mistake in the program, as registering two handlers for one path is.
func (s *System) change(stream, what string, do func(*declaration) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.streams[stream]
	if d == nil {
		d = &declaration{}
	}
	err := record.ValidStream(stream)
	if err == nil && s.started {
		err = errors.New("the system has started")
	}
	if err == nil {
		err = do(d)
	}
	if err != nil {
		panic(fmt.Sprintf("once: %s %q: %v", what, stream, err))
	}
	s.streams[stream] = d
}

// Start ends registration and checks that every stream can work: that the destinations it names exist, for example. Later calls give the first one's result.
func (s *System) Start() error {
	_, err := s.start()
	return err
}

func (s *System) start() (system.Engine, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started {
		return s.engine, s.startErr
	}
	s.started = true
	streams := make([]system.Stream, 0, len(s.streams))
	for name, d := range s.streams {
		declared := d.config.stream(name)
		// Without a group record nothing could be numbered for a destination that wants 1, 2, 3 …; the backend tells those by the declared ones.
		declared.Stateless = d.stateless && len(d.config.Destinations) > 0
		if d.handler != nil {
			declared.Handler = d.handler(slices.Clone(d.config.Destinations))
		}
		streams = append(streams, declared)
	}
	slices.SortFunc(streams, func(a, b system.Stream) int { return cmp.Compare(a.Name, b.Name) })
	engine, err := s.backend.Start(streams)
	if err != nil {
		s.startErr = fmt.Errorf("start system: %w", err)
		return nil, s.startErr
	}
	s.engine = engine
	return engine, nil
}

// Process runs a batch of deliveries and tells each one's fate, in their order. Messages of one group are processed in their order; after one that must be
// tried again, so must the later ones of its group. The caller acknowledges deliveries whose outcome is settled, redelivers the others, and puts rejected ones on
// a dead-letter queue. Effects are published by [System.Run], here or in another process.
func (s *System) Process(ctx context.Context, messages ...Message) []Outcome {
	outcomes := make([]Outcome, len(messages))
	engine, err := s.start()
	if err != nil {
		for i := range outcomes {
			outcomes[i].Err = err
		}
		return outcomes
	}
	batch := make([]record.Message, len(messages))
	for i := range messages {
		batch[i] = messages[i].internal()
	}
	for i, o := range engine.Process(ctx, batch) {
		outcomes[i] = outcome(o)
	}
	return outcomes
}

// Call processes one message that no queue would deliver again, for a caller that waits for the answer. After an outcome of the kind Retry the caller tries again
// with the same message; nothing else does.
func (s *System) Call(ctx context.Context, m Message) Outcome {
	engine, err := s.start()
	if err != nil {
		return Outcome{Err: err}
	}
	return outcome(engine.Call(ctx, m.internal()))
}

// Run receives, processes, publishes and sweeps until the context ends. It then finishes what has begun, and gives nil.
func (s *System) Run(ctx context.Context) error {
	if _, err := s.start(); err != nil {
		return err
	}
	if err := s.backend.Run(ctx); err != nil {
		return fmt.Errorf("run system: %w", err)
	}
	return nil
}

// Handler is the system's HTTP front door. Messages that it accepts are processed by [System.Run].
func (s *System) Handler() (http.Handler, error) {
	if _, err := s.start(); err != nil {
		return nil, err
	}
	return s.backend.Handler(), nil
}

// Tokens is where decorators and middleware remember what is done, on the system's own store.
func (s *System) Tokens() *Tokens { return NewTokens(s.backend.Tokens()) }

// Close gives the store back. It is called once, after Run has returned.
func (s *System) Close() error {
	if err := s.backend.Close(); err != nil {
		return fmt.Errorf("close system: %w", err)
	}
	return nil
}
