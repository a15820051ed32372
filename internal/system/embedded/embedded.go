// Package embedded is the embedded default: the whole system in one process, on one Pebble
// database. Its pollers and its listener feed the same handlers as the deployed functions; only the
// ports differ.
//
// # Limits
//
// A data folder belongs to one process at a time. Destinations that need AWS are written to files
// under the data folder instead, and the log says so.
package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/effectively-once/once/internal/blob/dirblob"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/dedup/lease"
	"github.com/effectively-once/once/internal/dedup/pebblestore"
	"github.com/effectively-once/once/internal/destination/file"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/queue/pebblequeue"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
	"github.com/effectively-once/once/internal/system/direct"
	"github.com/effectively-once/once/internal/system/embedded/backup"
	"github.com/effectively-once/once/internal/system/follow"
	"github.com/effectively-once/once/internal/telemetry"
	"github.com/effectively-once/once/internal/telemetry/recent"
	"github.com/effectively-once/once/internal/telemetry/scrape"
)

// Options of a system. Zero fields take the defaults in their comments.
type Options struct {
	// Config defaults to config.Default().
	Config *config.Config
	// DataDir defaults to ".once". If it does not exist, it is made.
	DataDir string
	// AcceptLoss opens a data folder even if a part of it was damaged or removed, or if it is older
	// than its output files, and logs the loss. Without it, such a folder is an error.
	AcceptLoss bool
	// Inspect opens no destinations: nothing can be published, and no folder is made for them.
	Inspect bool
	// ReadOnly opens a data folder that exists, and writes nothing to it. It implies Inspect, and
	// Run is an error.
	ReadOnly bool
	// Listen is the address of the HTTP listener that Run opens; if it is empty, Run opens none,
	// and none for operators.
	// Other machines may reach it only if Server authenticates callers, or with Insecure.
	Listen   string
	Insecure bool
	// Ready is called once by Run, with the address that it listens on, when it serves. Optional.
	Ready func(address string)
	// AllowHosts are host names under which a proxy forwards requests, besides addresses, localhost
	// and the host of Listen. Requests to other names are refused with 403.
	AllowHosts []string
	// Server has the settings of the listener: TLS, who may call, and limits. Its Listen and
	// Console are not used: the fields here are. Its Hosts add to AllowHosts. Defaults to none.
	Server *config.Server
	// MaxWaiting is the largest number of HTTP callers that wait for handlers at a time; the next
	// one gets 429. Defaults to 1000.
	MaxWaiting int
	// Console serves the console at /console. Defaults to [ConsoleOff].
	Console Console
	// Stdout is the target of the file destination "-". Defaults to os.Stdout.
	Stdout io.Writer
	// Programs lets handlers of the kind exec run, and gets their standard error. Without it, they
	// are an error.
	Programs io.Writer
	// Sign and Transport are those of [pipeline.Config]. Optional.
	Sign      func(url string, next http.RoundTripper) (http.RoundTripper, error)
	Transport http.RoundTripper
	// Collector is that of [telemetry.Options]: it sends metrics and traces where the environment
	// says. By default they are not sent.
	Collector func(ctx context.Context, o telemetry.Options, metrics, traces bool) (telemetry.Collector, error)
	// MeterProvider and TracerProvider get metrics and spans, in place of the Collector. Optional.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider
	// Now defaults to time.Now.
	Now func() time.Time
	// Log defaults to discarding.
	Log *slog.Logger
	// LogKeys writes the keys and groups of messages to the log, beside their hashes.
	LogKeys bool

	// fs is the file system of the database. Defaults to the disk. Tests cut its power.
	fs vfs.FS
	// expireEvery is the time between two deletions of expired records. Defaults to [expireEvery].
	expireEvery time.Duration
}

func (o Options) withDefaults() Options {
	if o.Config == nil {
		o.Config = config.Default()
	}
	if o.DataDir == "" {
		o.DataDir = ".once"
	}
	o.Inspect = o.Inspect || o.ReadOnly
	if o.Ready == nil {
		o.Ready = func(string) {}
	}
	if o.Stdout == nil {
		o.Stdout = os.Stdout
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.expireEvery = cmp.Or(o.expireEvery, expireEvery)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// A Console is a setting of the console at /console.
type Console string

// The settings of a console.
const (
	ConsoleOff   Console = "off"
	ConsoleRead  Console = "read"
	ConsoleWrite Console = "write" // it may send, redrive, drop and skip
)

// Check returns an error if c is none of the settings.
func (c Console) Check() error {
	switch c {
	case "", ConsoleOff, ConsoleRead, ConsoleWrite:
		return nil
	}
	return fmt.Errorf("console %q must be off, read or write", string(c))
}

// maxPool is how large the record of a pool may be before it takes no further session.
const maxPool = 1 << 20

// The folders in a data folder.
const (
	databaseFolder     = "db"
	blobsFolder        = "blobs"
	destinationsFolder = "destinations"
)

// ErrLocked reports that another process has the data folder open.
var ErrLocked = errors.New("data folder is in use by another process")

// A LockedError is the error for a data folder that another process has open. It wraps [ErrLocked].
type LockedError struct {
	Dir string
	Pid int // of the other process; 0 if it is not known
}

func (e *LockedError) Error() string {
	text := fmt.Sprintf("open data folder %s: %v", e.Dir, ErrLocked)
	if e.Pid != 0 {
		text += fmt.Sprintf(" (%d)", e.Pid)
	}
	return text
}

// Unwrap implements the interface of package errors.
func (e *LockedError) Unwrap() error { return ErrLocked }

// A System is an open data folder. It implements [system.Backend].
type System struct {
	options   Options
	db        *pebble.DB
	restores  record.Restores
	keys      *keyFilter
	store     *pebblestore.Store
	watch     *watch
	queues    *queues
	waiting   *system.Waiting // what fails at the moment
	telemetry *telemetry.Telemetry
	metrics   *scrape.Metrics // nil if nothing runs
	recent    *recent.Metrics // nil if nothing runs
	blobs     *dirblob.Dir

	declared   []system.Stream
	generation atomic.Pointer[generation]
	engine     live          // of the present generation
	changing   sync.Mutex    // held by Reconfigure
	replaced   chan struct{} // gets a value when the generation was replaced

	opening sync.Mutex // for files
	files   []*file.Sender
	opened  map[string]*file.Sender // those of earlier configurations, by path
	stdout  *file.Stdout
	direct  *direct.Runner
	handler http.Handler
	front   atomic.Pointer[front]
	appends follow.Hub // wakes the readers of logs

	tokens     sync.Once // at the first call of Tokens
	stopTokens func()    // ends expireTokens

	lettersSince   time.Time            // when this process began to announce dead letters
	lettersNoticed map[string]time.Time // when they were last announced, by queue and setting

	dirty atomic.Bool // something was written without waiting for the disk

	mu       sync.Mutex
	ready    bool
	draining chan struct{} // closed when Run begins to end
	requests gate          // of the HTTP API
}

var _ system.Backend = (*System)(nil)

// Open opens a data folder. It starts nothing.
func Open(options Options) (*System, error) {
	options = options.withDefaults()
	if err := options.Console.Check(); err != nil {
		return nil, err
	}
	if !options.ReadOnly {
		if err := errors.Join(backup.Check(options.DataDir, options.Config.Restores), options.Config.CheckRestores(options.Now())); err != nil {
			return nil, err
		}
	}
	if !options.ReadOnly {
		if err := makeFolders(options.DataDir); err != nil {
			return nil, fmt.Errorf("open data folder: %w", err)
		}
	}
	db, err := options.openDatabase()
	if errors.Is(err, pebbledb.ErrLocked) {
		return nil, &LockedError{options.DataDir, pebbledb.Holder(filepath.Join(options.DataDir, databaseFolder))}
	}
	if err != nil {
		return nil, err
	}
	restores, err := options.restored()
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s := &System{options: options, db: db, restores: restores, waiting: system.NewWaiting(), stdout: file.NewStdout(options.Stdout), draining: make(chan struct{}), replaced: make(chan struct{}, 1)}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// makeFolders makes the data folder and the folders in it for its user only. If the data folder
// exists already, it is left as it is: it may hold other things. The database is closed to others
// in any case.
func makeFolders(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, name := range []string{databaseFolder, blobsFolder} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	database := filepath.Join(dir, databaseFolder)
	if info, err := os.Stat(database); err != nil || info.Mode().Perm()&0o077 == 0 {
		return err
	}
	return os.Chmod(database, 0o700) //nolint:gosec // a folder
}

func (o Options) openDatabase() (*pebble.DB, error) {
	var lost func(pebbledb.Damage)
	if o.AcceptLoss {
		lost = func(d pebbledb.Damage) {
			o.Log.Error("loss accepted: a file of the database is not as it was synced", "path", d.Path, "damage", d.What)
		}
	}
	return pebbledb.OpenAccepting(filepath.Join(o.DataDir, databaseFolder), &pebble.Options{FS: o.fs, ReadOnly: o.ReadOnly}, lost)
}

// restored returns the restores of the data folder, which the process has locked. If it will write,
// a folder that was put back gets a stamp.
func (o Options) restored() (record.Restores, error) {
	before, err := backup.Recorded(o.DataDir, o.Config.Restores)
	if err != nil || o.ReadOnly {
		return before, err
	}
	all, err := backup.Begin(o.DataDir, o.Config.Restores, o.Now())
	if err == nil && len(all) > len(before) {
		o.Log.Warn("data folder was restored: effects have new numbers from now on", "restores", len(all), "stamp", all.Last())
	}
	return all, err
}

func (s *System) open() (err error) {
	if err := s.openTelemetry(); err != nil {
		return err
	}
	s.keys = s.newKeyFilter()
	s.store = pebblestore.New(s.db, pebblestore.Options{Now: s.options.Now, Presence: s.keys.Filter})
	s.watch = newWatch(crashing(s.store), s.options.Now)
	s.lettersSince, s.lettersNoticed = s.options.Now(), map[string]time.Time{}
	s.queues, err = openQueues(s.db, pebblequeue.Options{Write: s.store.WriteJoined, Now: s.options.Now, ReadOnly: s.options.ReadOnly}, s.move, s.keeping())
	if err != nil || s.options.ReadOnly {
		return err
	}
	s.blobs, err = dirblob.Open(filepath.Join(s.options.DataDir, blobsFolder))
	return err
}

// Start makes the engine of the configured streams and those declared in code. See
// [system.Backend].
func (s *System) Start(declared []system.Stream) (system.Engine, error) {
	if err := configured(s.options.Config, declared); err != nil {
		return nil, err
	}
	s.declared = declared
	g, err := s.newGeneration(s.options.Config, nil)
	if err != nil {
		return nil, err
	}
	s.engine = live{s}
	s.generation.Store(g)
	s.direct = s.runner()
	if s.handler, err = s.frontDoor(); err != nil {
		return nil, err
	}
	if err := s.openFront(); err != nil {
		return nil, err
	}
	s.keys.start()
	return logged{durable{s.engine, s}}, nil
}

// configured fails if the configuration has streams and code declares one that it does not have:
// the name is most likely misspelt, and the messages would bypass the handler.
func configured(c *config.Config, declared []system.Stream) error {
	for _, d := range declared {
		if _, ok := c.Streams[d.Name]; !ok && len(c.Streams) > 0 {
			return fmt.Errorf("stream %s is declared in code and not in the configuration, which has: %s", d.Name, strings.Join(c.StreamNames(), ", "))
		}
	}
	return nil
}

// Handler serves HTTP and the sending part of the SQS JSON protocol, for the callers that Server
// allows. Only the listener of Run refuses requests from other origins and to other host names.
func (s *System) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.front.Load().api.ServeHTTP(w, r) })
}

// Tokens returns the store of the tokens of decorators and middleware. From then on, expired
// records are deleted until Close, also if Run is never called.
func (s *System) Tokens() lease.Store {
	s.tokens.Do(func() {
		if s.options.ReadOnly {
			return
		}
		s.keys.start()
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.expireTokens(ctx)
		}()
		s.stopTokens = func() {
			cancel()
			<-done
		}
	})
	return s.store
}

// Close releases the data folder. Run must have returned.
func (s *System) Close() error {
	s.tokens.Do(func() {}) // none from now on
	if s.stopTokens != nil {
		s.stopTokens()
	}
	if s.keys != nil { // it is nil if open has failed
		s.keys.stop()
	}
	s.closeFront()
	var errs []error
	if g := s.generation.Load(); g != nil {
		errs = append(errs, g.pipeline.Close())
	}
	for _, f := range s.outputs() {
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

// Ready returns nil if requests can be served.
func (s *System) Ready(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready {
		return errors.New("not running, or shutting down")
	}
	return nil
}
