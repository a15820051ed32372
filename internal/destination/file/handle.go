package file

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/record"
)

// A handle is what the sender needs of an open file.
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

// A ShortError says that a file lost lines that were committed. Nobody but a person can tell what to do about it.
type ShortError struct {
	Path      string
	Size      int64 // in bytes
	Committed int64 // in bytes
}

func (e *ShortError) Error() string {
	return fmt.Sprintf("%s has %d bytes, but %d were committed: somebody cut it; put the lost lines back, "+
		"or move the file away to begin a new one", e.Path, e.Size, e.Committed)
}

// A replacedError says that the path no longer leads to the open file, so that nobody would see what was written.
type replacedError struct{ path string }

func (e *replacedError) Error() string {
	return e.path + " was moved away or removed while it was written"
}

// append writes behind the committed length and makes it durable. It leaves an error to restore.
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

// reachable makes sure that the lines are where the path leads: a file that was renamed or removed is
// still written without an error, and its lines would be lost with it.
func (s *Sender) reachable(size int64) error {
	mine, err := s.file.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(s.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(mine, there) {
		s.drop()
		return &replacedError{s.path}
	}
	if err == nil && there.Size() != size {
		return fmt.Errorf("somebody else writes to it: %d bytes where %d are expected", there.Size(), size)
	}
	return err
}

// restore brings the file back to its committed length after a failed round. If it can't, the next round will have to.
func (s *Sender) restore() {
	s.drop()
	if err := s.reopen(); err != nil {
		s.drop()
	}
}

func (s *Sender) drop() {
	if s.file != nil {
		_ = s.file.Close() // what it holds beyond the committed length is given up
		s.file = nil
	}
}

// reopen opens the file at its committed length, as the store has it: what this process remembers may be wrong after a failed write.
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

// committed gives the committed length of an open file. A file of which the store has none is adopted.
func (s *Sender) committed(f handle) (int64, error) {
	length, known, err := s.marks.length()
	switch {
	case err != nil:
		return 0, s.unreadable(err)
	case known:
		return length, s.own()
	}
	return s.adopt(f)
}

// unreadable adds to the error of a corrupt record what can be done. The marks are records of their own, so that they tell in a new file what is in the old one.
func (s *Sender) unreadable(err error) error {
	if !errors.Is(err, record.ErrCorrupt) {
		return err
	}
	return fmt.Errorf("%w: nothing tells which lines of %s were committed; move the file away to begin a new one, "+
		"in which the last lines of the old one may come again, and no others", err, s.path)
}

// create begins a new file, and forgets the length of the old one first: beside a length, the empty file that a crash may leave would be one that somebody cut. Without
// one it is adopted. The old length may be corrupt, as it is of no use any more.
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

// adopt keeps what is in a file that the store does not know, and makes its last line complete.
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
	// Whoever is killed after the signature adopts the file again. Killed after the length, it would know a file that another folder has signed, and refuse it.
	if err := s.sign(); err != nil {
		return 0, err
	}
	return size, s.recordLength(size)
}

// cut removes what lies behind the committed length.
func (s *Sender) cut(f handle) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return s.irregular()
	case info.Size() < s.length:
		return &ShortError{Path: s.path, Size: info.Size(), Committed: s.length}
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

// createFolders is os.MkdirAll that survives a power failure.
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
	d, err := os.Open(path) //nolint:gosec // a folder from the configuration
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
