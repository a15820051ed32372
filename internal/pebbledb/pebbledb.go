// Package pebbledb opens the one Pebble database that the embedded default keeps everything in, and says which keys belong to whom.
//
// Because all of it shares one write-ahead log, a write that was not synced is lost by a crash only together with everything written after it.
package pebbledb

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// The first byte of a key tells whose it is.
const (
	Groups byte = 'g'
	Helds  byte = 'h'
	Tokens byte = 't'
	Queues byte = 'q'
	Files  byte = 'f'
)

const (
	// memTableSize is how much is sorted in memory before it is written to tables. Pebble takes the memory of two out of the cache's.
	memTableSize = 16 << 20
	// cacheSize is how much is kept in memory: besides what is being written, the filters and indexes of millions of keys, and what was read last.
	cacheSize = 96 << 20
	// filterBits a key let nearly all look-ups of identities that were never seen do without reading a table.
	filterBits = 10
)

// ErrLocked says that another process has the database open.
var ErrLocked = errors.New("database is in use by another process")

// Open opens or creates the database in a folder. Options may be nil; tests pass another file system.
func Open(dir string, options *pebble.Options) (*pebble.DB, error) {
	if options == nil {
		options = &pebble.Options{}
	}
	if options.Logger == nil {
		options.Logger = quiet{}
	}
	options.FormatMajorVersion = pebble.FormatNewest
	if options.MemTableSize == 0 {
		options.MemTableSize = memTableSize
	}
	if options.Cache == nil && options.CacheSize == 0 {
		options.CacheSize = cacheSize
	}
	for i := range options.Levels {
		options.Levels[i].FilterPolicy = bloom.FilterPolicy(filterBits)
	}
	if options.FS == nil {
		options.FS = vfs.Default
	}
	logs := &logs{FS: options.FS, logger: options.Logger}
	options.FS = logs
	options.AddEventListener(pebble.EventListener{BackgroundError: logs.background})
	db, err := pebble.Open(dir, options)
	if errors.Is(err, syscall.EAGAIN) {
		return nil, fmt.Errorf("open database %s: %w", dir, ErrLocked)
	}
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", dir, err)
	}
	logs.opened.Store(true)
	return db, nil
}

// quiet drops Pebble's progress messages; what goes wrong comes back as an error.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}

// Fatalf ends the process, as Pebble asks for: a log that can't be written, on a full disk for example, leaves the database unable to go on, and whatever recovered from a panic
// would hang on its locks. Nothing acknowledged is lost; the next start goes on.
func (quiet) Fatalf(format string, args ...any) {
	_, _ = fmt.Fprintf(os.Stderr, "once: the database can't go on: "+format+"\n", args...)
	os.Exit(1)
}
