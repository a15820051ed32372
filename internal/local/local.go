// Package local is the embedded default: the whole system in one process, on one Pebble database. Its pollers and its listener feed the same handlers as the
// deployed functions; only the ports differ.
//
// # Limits
//
// A data folder belongs to one process at a time. Destinations that need AWS are written to files under the data folder instead, and the log says so.
package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/blobdir"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/pebblestore"
	"github.com/effectively-once/once/internal/destination/file"
	"github.com/effectively-once/once/internal/lease"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/pipeline"
	"github.com/effectively-once/once/internal/system"
)

// Options of a system. Zero fields take the defaults in their comments.
type Options struct {
	// Config defaults to config.Default().
	Config *config.Config
	// DataDir defaults to ".once". It is made if it is not there.
	DataDir string
	// Inspect opens no destinations: nothing can be published, and nothing is made where they would be.
	Inspect bool
	// Listen is the address of the HTTP listener that Run opens; empty opens none.
	Listen string
	// Ready is called once by Run, with the address that it listens on, when it serves. Defaults to nothing.
	Ready func(address string)
	// Stdout is what the file destination "-" writes to. Defaults to os.Stdout.
	Stdout io.Writer
	// Watch observes the system. Defaults to nobody.
	Watch pipeline.Watch
	// Now defaults to time.Now.
	Now func() time.Time
	// Log defaults to discarding.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Config == nil {
		o.Config = config.Default()
	}
	if o.DataDir == "" {
		o.DataDir = ".once"
	}
	if o.Ready == nil {
		o.Ready = func(string) {}
	}
	if o.Stdout == nil {
		o.Stdout = os.Stdout
	}
	if o.Watch == nil {
		o.Watch = pipeline.Unwatched{}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// ErrLocked says that another process has the data folder open.
var ErrLocked = errors.New("data folder is in use by another process")

// A System is an open data folder. It implements [system.Backend].
type System struct {
	options Options
	db      *pebble.DB
	store   *pebblestore.Store
	watch   *watch
	queues  *queues
	blobs   *blobdir.Dir

	pipeline *pipeline.Pipeline
	engine   *dedup.Engine    // the pipeline's
	door     *pipeline.Queues // for whoever must not be told of a message before it is durable
	files    []*file.Sender
	stdout   *file.Stdout
	handler  http.Handler

	dirty atomic.Bool // something was written without waiting for the disk

	mu       sync.Mutex
	ready    bool
	draining chan struct{}  // closed when Run begins to end
	requests sync.WaitGroup // under way at the front door
}

var _ system.Backend = (*System)(nil)

// Open opens a data folder. It starts nothing.
func Open(options Options) (*System, error) {
	options = options.withDefaults()
	if err := os.MkdirAll(options.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("open data folder: %w", err)
	}
	db, err := pebbledb.Open(filepath.Join(options.DataDir, "db"), nil)
	if errors.Is(err, pebbledb.ErrLocked) {
		return nil, fmt.Errorf("open data folder %s: %w", options.DataDir, ErrLocked)
	}
	if err != nil {
		return nil, err
	}
	s := &System{options: options, db: db, stdout: file.NewStdout(options.Stdout), draining: make(chan struct{})}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *System) open() (err error) {
	s.store = pebblestore.New(s.db, pebblestore.Options{Now: s.options.Now})
	s.watch = newWatch(crashing(s.store), s.options.Now)
	if s.queues, err = openQueues(s.db, s.options.Now); err != nil {
		return err
	}
	s.blobs, err = blobdir.Open(filepath.Join(s.options.DataDir, "blobs"))
	return err
}

// Start makes the engine of the configured streams and those declared in code. See [system.Backend].
func (s *System) Start(declared []system.Stream) (system.Engine, error) {
	p, err := pipeline.New(pipeline.Config{
		Config: s.options.Config, Declared: declared, Store: s.watch, Ports: s.queues.behindWrites(), Open: s.openDestination, Blobs: s.blobs,
		Trusted: trusting().Trusted, Watch: s.options.Watch, Now: s.options.Now, Log: s.options.Log,
	})
	if err != nil {
		return nil, err
	}
	s.pipeline, s.engine, s.door = p, p.Engine, p.Queues.Over(s.queues.durable())
	if s.handler, err = s.frontDoor(); err != nil {
		return nil, err
	}
	return durable{s.engine, s}, nil
}

// Handler serves HTTP and the sending part of the SQS JSON protocol.
func (s *System) Handler() http.Handler { return s.handler }

// Tokens is where decorators and middleware keep their tokens.
func (s *System) Tokens() lease.Store { return s.store }

// Close gives the data folder back. Run must have returned.
func (s *System) Close() error {
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	if s.queues != nil {
		errs = append(errs, s.queues.Close())
	}
	if s.blobs != nil {
		errs = append(errs, s.blobs.Close())
	}
	return errors.Join(append(errs, s.db.Close())...)
}

// Ready tells whether requests can be served.
func (s *System) Ready(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready {
		return errors.New("not running, or about to end")
	}
	return nil
}
