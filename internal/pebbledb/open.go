package pebbledb

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// open locks the folder, compares it with its list of synced files, and opens the database.
func (l *logs) open(dir string, options *pebble.Options, lost func(Damage)) (*pebble.DB, error) {
	if !options.ReadOnly {
		if err := createFolder(l.FS, dir); err != nil {
			return nil, err
		}
	}
	lock, err := pebble.LockDirectory(dir, l)
	if err != nil {
		return nil, err
	}
	options.Lock = lock
	db, err := l.openLocked(dir, options, lost)
	// From here on only the database holds the lock.
	if err := errors.Join(err, lock.Close()); err != nil {
		return nil, err
	}
	l.opened.Store(true)
	return db, nil
}

func (l *logs) openLocked(dir string, options *pebble.Options, lost func(Damage)) (*pebble.DB, error) {
	list, err := check(l.FS, dir, options.ReadOnly, lost)
	if err != nil {
		return nil, err
	}
	if !options.ReadOnly {
		l.list = list
	}
	options.ErrorIfNotExists = list.exists
	if err := l.removeOptions(dir); err != nil {
		return nil, err
	}
	db, err := l.openPebble(dir, options)
	if damaged(err) && lost != nil && !options.ReadOnly {
		if err := list.salvage(lost); err != nil {
			return nil, err
		}
		db, err = l.openPebble(dir, options)
	}
	_, refused := errors.AsType[syscall.Errno](err)
	switch {
	case damaged(err) && lost == nil:
		return nil, fmt.Errorf("database is damaged: %w; %s", err, advice)
	case err != nil && (!refused || damaged(err)):
		return nil, fmt.Errorf("%w; restore the data folder from a backup", err)
	case err != nil:
		return nil, err
	case options.ReadOnly:
		return db, nil
	}
	if err := list.opened(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// removeOptions removes the file with the options of the last start. Pebble only compares them with
// the options of this program, which are constants. A damaged one would prevent the database from
// being opened.
func (l *logs) removeOptions(dir string) error {
	if l.list == nil {
		return nil
	}
	names, err := l.List(dir)
	for _, name := range names {
		if err == nil && strings.HasPrefix(name, "OPTIONS-") {
			err = l.Remove(l.PathJoin(dir, name))
		}
	}
	return err
}

// damaged reports whether Pebble refused the content of a log.
func damaged(err error) bool { return errors.Is(err, pebble.ErrCorruption) }

// openPebble returns the error of a table that could not be written, on a full disk for example.
// Pebble itself would retry forever.
func (l *logs) openPebble(dir string, options *pebble.Options) (*pebble.DB, error) {
	type result struct {
		db  *pebble.DB
		err error
	}
	done := make(chan result, 1)
	go func() {
		db, err := pebble.Open(dir, options)
		done <- result{db, err}
	}()
	select {
	case r := <-done:
		return r.db, r.err
	case err := <-l.failed:
		return nil, fmt.Errorf("write tables: %w", err)
	}
}

// createFolder creates a folder, and makes its name durable.
func createFolder(files vfs.FS, dir string) error {
	if _, err := files.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := files.PathDir(dir)
	if parent != dir && parent != "." {
		if err := createFolder(files, parent); err != nil {
			return err
		}
	}
	if err := files.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return syncFolder(files, parent)
}
