package pebbledb

import (
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// firstReplayed returns the number of the first log that Pebble would replay, of the given ones and
// those in the folder. It reports false if Pebble would replay none: the tables contain the records
// of the earlier logs, which Pebble keeps only to use their files again.
//
// Only the manifest tells, and only Pebble reads it. So firstReplayed opens the database to be read
// only, in a view of the folder that has every log, and where no log can be opened.
func (s *synced) firstReplayed(logs []string) (wal.NumWAL, bool, error) {
	v := &view{FS: s.fs, dir: s.dir, logs: logs}
	db, err := pebble.Open(s.dir, &pebble.Options{FS: v, Logger: quiet{}, ReadOnly: true, FormatMajorVersion: pebble.FormatNewest})
	if first := v.first.Load(); first != nil {
		number, _, _ := wal.ParseLogFilename(*first)
		return number, true, nil
	}
	if err != nil {
		return 0, false, err
	}
	return 0, false, db.Close()
}

// A view is the file system of firstReplayed.
type view struct {
	vfs.FS
	dir   string
	logs  []string
	first atomic.Pointer[string] // the name of the first log that was opened
}

var errView = errors.New("logs are not read")

// List implements [vfs.FS]. It leaves out the options of the last start, see removeOptions.
func (v *view) List(dir string) ([]string, error) {
	names, err := v.FS.List(dir)
	names = slices.DeleteFunc(append(names, v.logs...), func(name string) bool { return strings.HasPrefix(name, "OPTIONS-") })
	slices.Sort(names)
	return slices.Compact(names), err
}

// Stat implements [vfs.FS]. The size of a log does not matter.
func (v *view) Stat(name string) (vfs.FileInfo, error) {
	if isLog(name) {
		return v.FS.Stat(v.dir)
	}
	return v.FS.Stat(name)
}

// Open implements [vfs.FS].
func (v *view) Open(name string, options ...vfs.OpenOption) (vfs.File, error) {
	if isLog(name) {
		name = v.PathBase(name)
		v.first.CompareAndSwap(nil, &name)
		return nil, errView
	}
	return v.FS.Open(name, options...)
}

// Lock implements [vfs.FS]: the caller holds the lock.
func (v *view) Lock(string) (io.Closer, error) { return closer(func() error { return nil }), nil }
