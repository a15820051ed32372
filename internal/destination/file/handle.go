package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/record"
)

// A handle is the part of an open file that the sender uses.
type handle interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Stat() (fs.FileInfo, error)
	Sync() error
	Truncate(size int64) error
}

func openFile(path string, flag int) (handle, error) {
	f, err := os.OpenFile(path, flag, 0o644) //nolint:gosec // a path from the configuration, a file for its readers
	if err != nil {
		return nil, err // not a nil *os.File in a handle
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	return f, nil
}

// A shortError says that a file lost committed lines. Only a person can decide what to do.
type shortError struct {
	Path      string
	Size      int64 // in bytes
	Committed int64 // in bytes
}

func (e *shortError) Error() string {
	return fmt.Sprintf("%s has %d bytes, but %d were committed: somebody cut it; put the lost lines back, "+
		"or move the file away to begin a new one", e.Path, e.Size, e.Committed)
}

// A replacedError says that the path no longer leads to the open file, so that no reader would see
// the written lines.
type replacedError struct{ path string }

func (e *replacedError) Error() string {
	return e.path + " was moved away or removed while it was written"
}

// append writes after the committed length and syncs. After an error, the caller calls restore.
func (s *Sender) append(lines []byte) error {
	if s.file == nil {
		if err := s.reopen(); err != nil {
			return err
		}
	}
	if err := s.cut(s.file); err != nil {
		return err
	}
	if _, err := s.file.WriteAt(lines, s.length); err != nil {
		return err
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	return s.reachable(s.length + int64(len(lines)))
}

// reachable checks that the path leads to the open file: a renamed or removed file can be written
// without an error, and its lines would be lost with it.
func (s *Sender) reachable(size int64) error {
	mine, err := s.file.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(s.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(mine, there) {
		s.drop()
		// the committed length is not that of this file, whose lines are kept
		if err == nil && there.Mode().IsRegular() {
			if err := s.db.Delete(s.marks.lengthKey(), pebble.Sync); err != nil {
				return err
			}
		}
		return &replacedError{s.path}
	}
	if err == nil && there.Size() != size {
		return fmt.Errorf("another program writes to it: it has %d bytes, and %d are expected", there.Size(), size)
	}
	return err
}

// restore truncates the file to its committed length after a failed round. If that fails, the next
// round does it.
func (s *Sender) restore() {
	s.drop()
	if err := s.reopen(); err != nil {
		s.drop()
	}
}

func (s *Sender) drop() {
	if s.file != nil {
		_ = s.file.Close() // its content beyond the committed length is discarded
		s.file = nil
	}
}

// reopen opens the file at the committed length in the store, because the length in memory may be
// wrong after a failed write.
func (s *Sender) reopen() error {
	f, err := s.options.open(s.path, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = s.create()
	}
	if err != nil {
		return err
	}
	s.length, err = s.committed(f)
	if err == nil {
		err = s.cut(f)
	}
	if err != nil {
		_ = f.Close()
		return err
	}
	s.file = f
	return nil
}

// committed returns the committed length of an open file. If the store has none, the file is
// adopted.
func (s *Sender) committed(f handle) (int64, error) {
	length, known, err := s.marks.length()
	switch {
	case err != nil:
		return 0, s.unreadable(err)
	case known:
		return s.own(f, length)
	}
	return s.adopt(f)
}

// unreadable adds instructions to the error of a corrupt record. The marks are separate records, so
// they remain valid for a new file.
func (s *Sender) unreadable(err error) error {
	if !errors.Is(err, record.ErrCorrupt) {
		return err
	}
	return fmt.Errorf("%w: it is unknown which lines of %s were committed; move the file away to begin a new one, "+
		"in which the last lines of the old one may come again, and no others", err, s.path)
}

// create begins a new file. It deletes the length of the old one first: after a crash, an empty
// file with a length would look truncated; without a length it is adopted. The old length may be
// corrupt, because it is no longer needed.
func (s *Sender) create() (handle, error) {
	length, known, err := s.marks.length()
	switch {
	case errors.Is(err, record.ErrCorrupt):
		s.options.Log.Warn("file of a destination is gone, a new one begins", slog.String("path", s.path), slog.Any("error", err))
	case err != nil:
		return nil, err
	case known && length > 0:
		s.options.Log.Warn("file of a destination is gone, a new one begins",
			slog.String("path", s.path), slog.Int64("committed_bytes", length))
	}
	if err := s.db.Delete(s.marks.lengthKey(), pebble.Sync); err != nil {
		return nil, err
	}
	if err := createFolders(filepath.Dir(s.path)); err != nil {
		return nil, err
	}
	f, err := s.options.open(s.path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := syncFolder(filepath.Dir(s.path)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// adopt keeps the content of a file that the store does not know, and completes its last line.
func (s *Sender) adopt(f handle) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, s.irregular()
	}
	size := info.Size()
	last := []byte{'\n'}
	if size > 0 {
		if _, err := f.ReadAt(last, size-1); err != nil {
			return 0, err
		}
	}
	if last[0] != '\n' {
		if _, err := f.WriteAt([]byte{'\n'}, size); err != nil {
			return 0, err
		}
		size++
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	s.durable, s.noted = 0, time.Time{}
	// After a crash at this point the file is adopted again. If the length came first, and the
	// other folder wrote another line, this one would be refused.
	if err := s.sign(); err != nil {
		return 0, err
	}
	return size, s.recordLength(size)
}

// cut removes the part after the committed length.
func (s *Sender) cut(f handle) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return s.irregular()
	case info.Size() < s.length:
		return &shortError{Path: s.path, Size: info.Size(), Committed: s.length}
	case info.Size() > s.length:
		return f.Truncate(s.length)
	}
	return nil
}

func (s *Sender) irregular() error { return fmt.Errorf("%s is not a regular file", s.path) }

func (s *Sender) recordLength(n int64) error {
	key := s.marks.lengthKey()
	return s.db.Set(key, lengthValue(key, n), pebble.Sync)
}

// createFolders is os.MkdirAll, but durable.
func createFolders(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := createFolders(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // for readers of the file
		return err
	}
	return syncFolder(parent)
}

func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil // it syncs no folders
	}
	d, err := os.Open(path) //nolint:gosec // a folder from the configuration
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
