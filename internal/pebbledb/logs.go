package pebbledb

import (
	"errors"
	"io"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// logs is the file system that Pebble works on. It does two things.
//
// An error at the write-ahead log, or in the background, ends the process with a message. Pebble
// does so for most writes by itself. But it panics if it can't end a log or begin the next one, on
// a full disk for example, and then a lock remains held forever. While the database is being
// opened, errors are returned.
//
// It also keeps the list of synced files up to date, see [syncedName].
//
// Both are for the files in the database's folder only, and not for those of a copy.
type logs struct {
	vfs.FS
	dir    string // the database's folder
	logger pebble.Logger
	list   *synced // nil if the database is read-only
	opened atomic.Bool
	failed chan error // the first background error before opened
}

func isLog(name string) bool { return filepath.Ext(name) == ".log" }

// check ends the process after an error at a log.
func (l *logs) check(doing, name string, err error) {
	if err != nil && isLog(name) && l.opened.Load() {
		l.logger.Fatalf("%s the log %s: %v", doing, name, err)
	}
}

// background is called when a table could not be written. If the operating system refused the
// write, Pebble would retry without a pause and forever, and all writers would wait. While the
// database is being opened, Open returns the error, and this goroutine blocks to stop the retries.
func (l *logs) background(err error) {
	if _, refused := errors.AsType[syscall.Errno](err); !refused {
		return
	}
	if l.opened.Load() {
		l.logger.Fatalf("write tables: %v", err)
		return
	}
	select {
	case l.failed <- err:
	default: // Open returns the first error
	}
	select {}
}

// corrupt ends the process when Pebble finds a damaged table: more may be damaged, and a process
// that continues would write on top of it. One that only reads gets the error.
func (l *logs) corrupt(info pebble.DataCorruptionInfo) {
	if l.opened.Load() && l.list != nil {
		l.logger.Fatalf("%s is damaged: %v; restore the data folder from a backup", info.Path, info.Details)
	}
}

// Create implements [vfs.FS].
func (l *logs) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	err := l.forget(name) // Create overwrites a file that an unfinished creation left
	if err != nil {
		return nil, err
	}
	f, err := l.FS.Create(name, category)
	return l.guard(name, f, err)
}

// Open implements [vfs.FS]. While the database is open, only [Copy] reads a log. Its writer may add
// to it meanwhile, and a copy in parts would have a gap: so it ends where it was last synced.
func (l *logs) Open(name string, options ...vfs.OpenOption) (vfs.File, error) {
	f, err := l.FS.Open(name, options...)
	if err != nil || !l.opened.Load() || l.list == nil || !isLog(name) || !l.inside(name) {
		return f, err
	}
	return &syncedStart{File: f, left: l.list.lengthOf(l.PathBase(name))}, nil
}

// A syncedStart is the part of a log that was synced when it was opened.
type syncedStart struct {
	vfs.File
	left int64
}

func (f *syncedStart) Read(b []byte) (int, error) {
	if f.left == 0 {
		return 0, io.EOF
	}
	n, err := f.File.Read(b[:min(int64(len(b)), f.left)])
	f.left -= int64(n)
	return n, err
}

// ReuseForWrite implements [vfs.FS].
func (l *logs) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := vfs.File(nil), l.forget(old, name)
	if err == nil {
		f, err = l.FS.ReuseForWrite(old, name, category)
	}
	return l.guard(name, f, err)
}

// Remove implements [vfs.FS].
func (l *logs) Remove(name string) error {
	if err := l.forget(name); err != nil {
		return err
	}
	return l.FS.Remove(name)
}

// Rename implements [vfs.FS].
func (l *logs) Rename(old, name string) error {
	if err := l.forget(old, name); err != nil {
		return err
	}
	return l.FS.Rename(old, name)
}

// Lock implements [vfs.FS]. The list of synced files is closed just before the lock is released:
// from then on another process may have the folder.
func (l *logs) Lock(name string) (io.Closer, error) {
	lock, err := l.FS.Lock(name)
	if err != nil {
		return nil, err
	}
	return closer(func() error {
		if l.list == nil {
			return lock.Close()
		}
		return errors.Join(l.list.close(), lock.Close())
	}), nil
}

type closer func() error

func (c closer) Close() error { return c() }

// Unwrap implements [vfs.FS].
func (l *logs) Unwrap() vfs.FS { return l.FS }

// inside reports whether a file is in the database's folder.
func (l *logs) inside(path string) bool { return l.PathDir(path) == l.PathDir(l.PathJoin(l.dir, "_")) }

// forget removes files from the list before they change.
func (l *logs) forget(paths ...string) error {
	if l.list == nil {
		return nil
	}
	var names []string
	for _, path := range paths {
		if l.inside(path) {
			names = append(names, l.PathBase(path))
		}
	}
	return l.list.drop(names...)
}

func (l *logs) guard(path string, f vfs.File, err error) (vfs.File, error) {
	name := l.PathBase(path)
	if !tracked(name) || !l.inside(path) {
		return f, err
	}
	if l.check("create", path, err); err != nil {
		return nil, err
	}
	return &logFile{File: f, logs: l, path: path, name: name}, nil
}

// A logFile is a log, a manifest or a marker that Pebble writes from its beginning to its end.
type logFile struct {
	vfs.File
	logs       *logs
	path, name string

	mu      sync.Mutex
	written prefix
}

func (f *logFile) Write(b []byte) (int, error) {
	f.mu.Lock()
	f.written.add(b) // before Write, which may change b
	f.mu.Unlock()
	n, err := f.File.Write(b)
	f.logs.check("write", f.path, err)
	return n, err
}

// sync calls a function that syncs the file, and lists the data written before the call.
func (f *logFile) sync(sync func() error) error {
	f.mu.Lock()
	written := f.written
	f.mu.Unlock()
	err := sync()
	if err == nil && f.logs.list != nil {
		err = f.logs.list.set(f.name, written)
	}
	f.logs.check("sync", f.path, err)
	return err
}

func (f *logFile) Sync() error { return f.sync(f.File.Sync) }

func (f *logFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f *logFile) SyncTo(length int64) (bool, error) {
	full, err := f.File.SyncTo(length)
	f.logs.check("sync", f.path, err)
	return full, err
}

func (f *logFile) Close() error {
	err := f.File.Close()
	if err == nil && f.logs.list != nil && isMarker(f.name) {
		err = f.logs.list.set(f.name, prefix{}) // a marker is its name: it has no content
	}
	f.logs.check("close", f.path, err)
	return err
}
