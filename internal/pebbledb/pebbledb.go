// Package pebbledb opens the Pebble database that holds all data of the embedded system, and
// assigns the prefixes of its keys.
//
// All parts share one write-ahead log. So a crash loses a write that was not synced only together
// with every later write.
package pebbledb

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// The first byte of a key names its owner.
const (
	Groups byte = 'g'
	Helds  byte = 'h'
	Chunks byte = 'c' // of logs
	Tokens byte = 't'
	Queues byte = 'q'
	Files  byte = 'f'
	Delays byte = 'd'
)

const (
	// memTableSize is the size of the data sorted in memory before it is written to tables. Pebble
	// takes the memory of two of them from the cache.
	memTableSize = 16 << 20
	// cacheSize is the size of the memory for the data being written, for the filters and indexes
	// of millions of keys, and for recently read data.
	cacheSize = 64 << 20
	// filterBits is the number of filter bits for a key. With them, nearly all look-ups of new
	// identities read no table.
	filterBits = 10
)

// ErrLocked is returned if another process has the database open.
var ErrLocked = errors.New("database is in use by another process")

// Open opens or creates the database in a folder. If options is nil, the defaults apply; tests pass
// another file system. If the database lost synced data, the error is a [*DamageError].
func Open(dir string, options *pebble.Options) (*pebble.DB, error) {
	return OpenAccepting(dir, options, nil)
}

// OpenAccepting is Open for an operator who accepts the loss of unreadable data. It calls lost for
// each damaged file. If lost is nil, damage is an error.
func OpenAccepting(dir string, options *pebble.Options, lost func(Damage)) (*pebble.DB, error) {
	options = withDefaults(options)
	logs := &logs{FS: options.FS, dir: dir, logger: options.Logger, failed: make(chan error, 1)}
	options.FS = logs
	options.AddEventListener(pebble.EventListener{BackgroundError: logs.background, DataCorruption: logs.corrupt})
	db, err := logs.open(dir, options, lost)
	if errors.Is(err, syscall.EAGAIN) {
		err = ErrLocked
	}
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", dir, err)
	}
	return db, nil
}

// Lock keeps other processes from opening a database, until it is closed. If one has it open, the
// error is [ErrLocked].
func Lock(dir string) (io.Closer, error) {
	lock, err := vfs.Default.Lock(filepath.Join(dir, "LOCK"))
	if errors.Is(err, syscall.EAGAIN) {
		err = ErrLocked
	}
	return lock, err
}

func withDefaults(options *pebble.Options) *pebble.Options {
	if options == nil {
		options = &pebble.Options{}
	}
	if options.Logger == nil {
		options.Logger = quiet{}
	}
	options.FormatMajorVersion = pebble.FormatNewest
	options.MemTableSize = cmp.Or(options.MemTableSize, memTableSize)
	if options.Cache == nil && options.CacheSize == 0 {
		options.CacheSize = cacheSize
	}
	for i := range options.Levels {
		options.Levels[i].FilterPolicy = bloom.FilterPolicy(filterBits)
	}
	if options.FS == nil {
		options.FS = vfs.Default
	}
	return options
}

// quiet drops Pebble's progress messages. Errors are returned by its calls.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}

// Fatalf ends the process, as Pebble requires: if a log can't be written, on a full disk for
// example, the database can't continue, and a process that recovered from a panic would hang on its
// locks. No acknowledged write is lost; the next start continues.
func (quiet) Fatalf(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stderr, "once: the database can't go on: "+format+"\n", args...)
	os.Exit(1)
}
