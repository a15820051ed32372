package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/pebbledb/presence"
	"github.com/effectively-once/once/internal/record"
)

// errClosed says that a sender was used after Close.
var errClosed = errors.New("file destination is closed")

// Options configure a sender. Zero fields take the defaults in their comments.
type Options struct {
	// Retention is how long the mark of a group is kept after its last delivery, and the mark of a
	// delivery without a number that has no retention. Defaults to record.DefaultGroupRetention, 30
	// days.
	Retention time.Duration
	// Now defaults to time.Now.
	Now func() time.Time
	// Log receives warnings about files that disappeared, and corrupt marks. Defaults to discarding
	// them.
	Log *slog.Logger
	// AcceptLoss keeps lines that this database does not know, in place of an error, and
	// appends after them.
	AcceptLoss bool
	// Presence saves lookups of marks that do not exist. Defaults to none.
	Presence *presence.Filter

	// open replaces openFile in tests.
	open func(path string, flag int) (handle, error)
}

func (o Options) withDefaults() Options {
	o.Retention = cmp.Or(o.Retention, record.DefaultGroupRetention)
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.open == nil {
		o.open = openFile
	}
	return o
}

// A Sender appends deliveries to one file. Only one may be open for a file: two destinations with
// the same path share it.
type Sender struct {
	db      *pebble.DB
	path    string
	marks   marks
	options Options

	buffers sync.Pool // of *[]byte, for the lines of requests

	mu      sync.Mutex
	waiting []*request
	closed  bool
	cursor  []byte        // where the last Expire stopped; nil is the beginning
	wake    chan struct{} // holds one value while the writer has work
	stopped chan struct{} // closed when the writer has returned

	// The following fields belong to the writer.
	file    handle    // nil before the next round has opened it
	length  int64     // committed; valid while file is open
	durable int64     // the length in the signature; the database is synced up to it
	noted   time.Time // when it was written
	buf     []byte    // lines of a round, kept between rounds
}

var _ record.Sender = (*Sender)(nil)

// Open opens or creates the file and its folders, and truncates the part that a crash left after
// the committed length. If the file is missing although lines were written to it, a new file
// begins; if it is shorter than its committed length, or has lines that the database has lost or
// never knew, Open returns an error that says what to do. The database must stay open until Close
// has returned.
func Open(db *pebble.DB, path string, options Options) (*Sender, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open file destination: %w", err)
	}
	s := &Sender{
		db:      db,
		path:    absolute,
		marks:   newMarks(db, options.Presence, absolute),
		options: options.withDefaults(),
		wake:    make(chan struct{}, 1),
		stopped: make(chan struct{}),
	}
	if err := s.reopen(); err != nil {
		return nil, fmt.Errorf("open file destination: %w", err)
	}
	go s.write()
	return s, nil
}

// Path returns the file's absolute path.
func (s *Sender) Path() string { return s.path }

// Send appends the deliveries that were not written before. A round writes all its lines or none,
// so a failure settles only deliveries that were written before. If ctx ends first, the lines may
// still be written; if they are sent again, they are left out.
func (s *Sender) Send(ctx context.Context, deliveries []record.Delivery) []error {
	if len(deliveries) == 0 {
		return nil
	}
	r := s.newRequest(deliveries)
	err := ctx.Err()
	if err == nil {
		err = s.submit(r)
	}
	if err == nil {
		select {
		case <-r.done:
			return r.errs
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	return all(len(deliveries), fmt.Errorf("append to file: %w", err))
}

// Close waits for the deliveries in progress and closes the file.
func (s *Sender) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.poke()
	<-s.stopped
	if s.file == nil {
		return nil
	}
	var err error
	if s.length > s.durable {
		if err = s.db.LogData(nil, pebble.Sync); err == nil {
			s.note()
		}
	}
	err = errors.Join(err, s.file.Close())
	s.file = nil
	if err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("close file destination: %w", err)
	}
	return nil
}

func (s *Sender) submit(r *request) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return errClosed
	}
	s.waiting = append(s.waiting, r)
	s.mu.Unlock()
	s.poke()
	return nil
}

func (s *Sender) poke() {
	select {
	case s.wake <- struct{}{}:
	default: // the writer has not yet handled the last wake-up
	}
}

// take returns the waiting requests, and whether more may follow.
func (s *Sender) take() (requests []*request, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	requests, s.waiting = s.waiting, nil
	return requests, !s.closed
}

func all(n int, err error) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}
