package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/destination/retry"
	"github.com/effectively-once/once/internal/handler"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/direct"
	"github.com/effectively-once/once/internal/system/process"
	"github.com/effectively-once/once/internal/system/publish"
)

// Config configures a pipeline. Zero fields take the defaults in their comments.
type Config struct {
	Config *config.Config // required
	Store  record.Store   // required
	Ports  Ports          // required
	// Declared are the streams that code handles. See [system.Backend].
	Declared []system.Stream
	// Open opens a destination, by shared if it is a webhook, a stream or another system: these are
	// the same everywhere. If the sender is nil, the destination is left out. Required.
	Open func(name string, d config.Destination, shared Open) (record.Sender, error)
	// OpenHandler opens a handler of a stream, by shared if it has a URL, which is the same
	// everywhere. If the caller is nil, the handler is left out: its messages are retried. Defaults
	// to shared, and an error for other kinds.
	OpenHandler func(stream string, h config.Handler, shared OpenHandler) (handler.Caller, error)
	// Secret returns a function that reads the secret of a place, such as env:NAME. If a secret is
	// on this machine, it is read at once, too, so that mistakes are found early. Defaults to
	// variables and files.
	Secret func(place string) func() (string, error)
	// Sign returns a transport that signs requests to a URL of API Gateway with the credentials of
	// this system. Defaults to none: then a destination with auth: iam can't be opened.
	Sign func(url string, next http.RoundTripper) (http.RoundTripper, error)
	// Transport sends the requests to other systems. Defaults to a new one for each destination.
	Transport http.RoundTripper
	// Restores is [dedup.Config]'s. Defaults to those that Config lists.
	Restores record.Restores
	// Large is [dedup.Config]'s.
	Large bool
	// KeptQueues is [process.Options.Kept].
	KeptQueues bool
	// Blobs may be nil if no handler makes blobs.
	Blobs record.Blobs
	// Trusted lists the trusted SenderIds on the ingress queues. See wire.Defaults.
	Trusted []string
	// Sources has the names of the configured sources by the names of their queues. Defaults to
	// none.
	Sources map[string]string
	// Waiting registers what fails. It may be nil.
	Waiting *system.Waiting
	// Recalls is [dedup.Config]'s.
	Recalls bool
	// Partitions is how many a pool has if its configuration does not say so. Defaults to 1.
	Partitions int
	// Forward replaces the built-in handler of a stream with logs. It may be nil.
	Forward func(record.Handler) record.Handler
	// LogState is [record.Stream.LogState] of such a stream. It may be nil.
	LogState func(state []byte) bool
	// Appended is [dedup.Config]'s. It may be nil.
	Appended func(record.GroupKey)
	// Before is the pipeline that this one replaces, in the same process. This one keeps its
	// senders to destinations that have not changed, and for all others the failed tries. Defaults
	// to none.
	Before *Pipeline
	// Starting is [process.Options]'s.
	Starting time.Duration
	// LogKeys writes the keys of messages to the log, beside their hashes.
	LogKeys bool
	// Watch defaults to [Unwatched].
	Watch Watch
	// Random returns a number in [0, n), for the jitter of the pauses between tries. Defaults to
	// [rand.Int64N].
	Random func(n int64) int64
	// Now defaults to time.Now.
	Now func() time.Time
	// Log defaults to discarding.
	Log *slog.Logger
}

// Open opens a destination.
type Open func() (record.Sender, error)

// OpenHandler opens a handler.
type OpenHandler func() (handler.Caller, error)

// A Pipeline is an engine and the ways to and from its queues.
type Pipeline struct {
	Engine *dedup.Engine
	Queues *Queues

	cfg      Config
	streams  []record.Stream
	sources  sources
	patient  map[string]*retry.Sender    // the destinations, by name
	handlers map[string]*handler.Handler // by stream
	bounds   map[string]*handler.Bounds  // of the streams with a handler in code
	running  *admission.Running
	// replacing has the steps of TakeOver.
	replacing []func()
}

// New makes the engine of the configured and the declared streams. It receives nothing. The error
// names each destination that can't be opened.
func New(cfg Config) (*Pipeline, error) {
	if cfg.Config == nil || cfg.Open == nil || slices.Contains(cfg.Ports.all(), nil) {
		return nil, errors.New("make pipeline: a configuration, all ports and a way to open destinations are required")
	}
	cfg = cfg.withDefaults()
	if err := cfg.Config.CheckRestores(cfg.Now()); err != nil {
		return nil, fmt.Errorf("make pipeline: %w", err)
	}
	streams, err := merge(cfg.Config, cfg.Declared, cfg.Partitions, cfg.Large)
	if err != nil {
		return nil, err
	}
	for i := range streams {
		if s := &streams[i]; Forwards(*s) && cfg.Forward != nil {
			s.Handler, s.Stateless, s.LogState = cfg.Forward(s.Handler), false, cfg.LogState
		}
	}
	bounds := map[string]*handler.Bounds{}
	for i := range streams {
		s := &streams[i]
		if s.Batch == nil && s.Timeout > 0 {
			bounds[s.Name] = handler.NewBounds(s, cfg.Before.boundsOf(s.Name), cfg.Now)
			s.Handler = bounds[s.Name].Handler(s.Handler)
		}
		if s.Batch == nil { // the others are opened later
			s.Handler = direct.Watched(cfg.Watch.Handler(s.Handler))
		}
	}
	bound, err := newSources(cfg.Config, cfg.Sources)
	if err != nil {
		return nil, fmt.Errorf("make pipeline: %w", err)
	}
	p := &Pipeline{cfg: cfg, streams: streams, sources: bound, patient: map[string]*retry.Sender{}, handlers: map[string]*handler.Handler{}, bounds: bounds, Queues: newQueues(cfg.Ports, streams, cfg.Now)}
	senders, err := p.senders()
	if err == nil {
		err = p.openHandlers()
	}
	if err != nil {
		return nil, errors.Join(err, p.Discard())
	}
	p.running = &admission.Running{}
	if cfg.Before != nil {
		p.running = cfg.Before.running
	}
	p.Engine, err = dedup.New(dedup.Config{
		Streams: streams, Store: cfg.Store, Queues: cfg.Watch.Queues(p.Queues), Senders: senders, Sequenced: sequenced(cfg.Config), Numbered: numbered(cfg.Config, streams), Unrelayed: unrelayed(cfg.Config), Restores: cfg.Restores, Large: cfg.Large, CheckDelay: p.Queues.CheckDelay, Blobs: cfg.Blobs,
		Recalls: cfg.Recalls, Appended: cfg.Appended, Random: cfg.Random, Now: cfg.Now, Log: cfg.Log, LogKeys: cfg.LogKeys, Observe: cfg.Watch.Observe,
		KeepDone: true, Running: p.running,
	})
	if err != nil {
		return nil, errors.Join(err, p.Discard())
	}
	return p, nil
}

func (c Config) withDefaults() Config {
	c.Partitions = cmp.Or(c.Partitions, 1)
	if c.Restores == nil {
		c.Restores = record.Listed(c.Config.Restores)
	}
	if c.Watch == nil {
		c.Watch = Unwatched{}
	}
	if c.Random == nil {
		c.Random = rand.Int64N
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.OpenHandler == nil {
		c.OpenHandler = func(_ string, _ config.Handler, shared OpenHandler) (handler.Caller, error) { return shared() }
	}
	if c.Secret == nil {
		c.Secret = func(place string) func() (string, error) { return config.Secret(place).Resolve }
	}
	return c
}

// Process makes the function behind the ingress queues.
func (p *Pipeline) Process() *process.Handler {
	return process.New(p.Engine, p.decode, p.Queues.Defer, process.Options{
		Starting: p.cfg.Starting, Timeout: p.Timeout, Retry: p.messageRetry, Waiting: p.cfg.Waiting, Random: p.cfg.Random, Kept: p.cfg.KeptQueues, LogKeys: p.cfg.LogKeys, Now: p.cfg.Now, Log: p.cfg.Log,
	})
}

// Timeout returns how long an attempt of a stream may take, 0 if it has no handler.
func (p *Pipeline) Timeout(stream string) time.Duration {
	s, _ := p.Engine.Stream(stream)
	return s.Timeout
}

// Longest returns the longest of the timeouts.
func (p *Pipeline) Longest() (longest time.Duration) {
	for i := range p.streams {
		longest = max(longest, p.streams[i].Timeout)
	}
	return longest
}

// MessagePause returns the pause after the first failed try of a message of a stream.
func (p *Pipeline) MessagePause(stream string) time.Duration {
	return p.messageRetry(stream).Pause(1, p.cfg.Random)
}

// Publish makes the function behind the publish queues.
func (p *Pipeline) Publish() *publish.Handler {
	return publish.New(p.Engine, publish.Options{
		Trusted: p.cfg.Trusted, Observe: p.cfg.Watch.Observe, Retry: p.effectRetry, Random: p.cfg.Random, LogKeys: p.cfg.LogKeys, Now: p.cfg.Now, Log: p.cfg.Log,
	})
}
