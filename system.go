package once

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/effectively-once/once/internal/dedup/lease"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

// A System processes messages effectively once. Packages such as embedded open one; a handler does
// not depend on them.
//
// Declare streams and register handlers first. The system starts with [System.Start], or with the
// first call that needs it. After that it may be used concurrently.
type System struct {
	backend system.Backend

	mu       sync.Mutex
	streams  map[string]*declaration
	started  bool
	engine   system.Engine
	startErr error
}

// A declaration is the configuration and handler of one stream in code.
type declaration struct {
	config    StreamConfig
	declared  bool
	handler   func(StreamConfig) record.Handler
	stateless bool
}

//nolint:gochecknoinits // packages such as embedded open a system, and a constructor that takes an internal type is no public API
func init() {
	system.New = func(b system.Backend) any { return &System{backend: b, streams: map[string]*declaration{}} }
	system.NewTokens = func(s lease.Store) any { return &Tokens{s} }
}

// Declare configures a stream in code. A declared stream without a handler forwards its messages to
// its destinations. Declare panics if the name or the config is invalid, if the stream was declared
// before, or if the system has started.
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

// Handle registers the handler of a stream. Handle panics if the name is invalid, if the stream has
// a handler already, or if the system has started.
func Handle[S any](sys *System, stream string, h Handler[S]) {
	sys.change(stream, "handle stream", func(d *declaration) error {
		if h == nil || d.handler != nil {
			return errors.New("needs one handler")
		}
		var state S
		_, d.stateless = any(state).(Stateless)
		d.handler = func(c StreamConfig) record.Handler { return adapt(h, c) }
		return nil
	})
}

// change changes a declaration. It panics on an error, because that is a bug in the program, like
// registering two handlers for one path.
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

// Start ends registration and checks that every stream can work: for example, that its destinations
// exist. Later calls return the result of the first one.
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
		// Without a group record, effects can't be numbered for a destination that expects 1, 2, 3
		// …; the backend finds such destinations among the declared ones.
		declared.Stateless = d.stateless && len(d.config.Destinations) > 0
		if d.handler != nil {
			declared.Handler = d.handler(d.config)
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

// Process runs a batch of deliveries and returns their outcomes, in the same order. Messages of one
// group are processed in order; if one must be retried, so must the later ones of its group. The
// caller acknowledges deliveries whose outcome is settled, redelivers the others, and puts rejected
// ones on a dead-letter queue; those that the handler rejected are on the system's already. Effects
// are published by [System.Run], here or in another process.
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

// Call processes one message that no queue would redeliver, for a caller that waits for the answer.
// After an outcome of the kind Retry, the caller has to retry with the same message.
func (s *System) Call(ctx context.Context, m Message) Outcome {
	engine, err := s.start()
	if err != nil {
		return Outcome{Err: err}
	}
	return outcome(engine.Call(ctx, m.internal()))
}

// Run receives, processes, publishes and sweeps until the context ends. It then finishes work in
// progress, and returns nil.
func (s *System) Run(ctx context.Context) error {
	if _, err := s.start(); err != nil {
		return err
	}
	if err := s.backend.Run(ctx); err != nil {
		return fmt.Errorf("run system: %w", err)
	}
	return nil
}

// Handler returns the system's HTTP API. Messages that it accepts are processed by
// [System.Run].
//
// It authenticates callers only if the configuration of package embedded has server.auth. It does
// not check Host and Origin as the listener of that package does: on an address that browsers
// reach, put [http.CrossOriginProtection] and a check of the Host in front of it.
func (s *System) Handler() (http.Handler, error) {
	if _, err := s.start(); err != nil {
		return nil, err
	}
	return s.backend.Handler(), nil
}

// Tokens returns the tokens of the system's own store, for decorators and middleware.
func (s *System) Tokens() *Tokens { return &Tokens{s.backend.Tokens()} }

// Close closes the store. Call it once, after Run has returned.
func (s *System) Close() error {
	if err := s.backend.Close(); err != nil {
		return fmt.Errorf("close system: %w", err)
	}
	return nil
}
