package filecursor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/client/internal/files"
)

// Options configure a [File]. Zero fields take the defaults in their comments.
type Options struct {
	// From is the number to continue after if the file has no line of a session that has processed
	// entries. Entries that were processed after From are processed again, and those before it are
	// left out. Defaults to none: then Open returns a [*client.LostCursorError].
	From *uint64
	// Mode is the mode of a new file. Defaults to 0600.
	Mode os.FileMode
	// NoSync leaves out the fdatasync: lines are then lost if the machine crashes, and Open may report
	// that. Defaults to false.
	NoSync bool
}

// A DamagedError says that a file does not have the lines that it should have.
type DamagedError struct {
	Path string
	// Number is the number of the last whole line, and Cursor the last number that was reported as
	// processed; both are 0 if the file has other content.
	Number, Cursor uint64
}

// Error returns the path and what is wrong.
func (e *DamagedError) Error() string {
	if e.Cursor == 0 {
		return e.Path + " has content that is not of a session"
	}
	return fmt.Sprintf("%s is cut off after entry %d, but entries up to %d were reported as processed", e.Path, e.Number, e.Cursor)
}

// A File is the open file of a session. Its methods are for one goroutine.
type File struct {
	file    *os.File
	options Options
	opened  client.Opened
	number  uint64
	size    int64
	buffer  []byte
	suffix  []byte // the text between a line and its number
}

const (
	// part is how many bytes are written at a time. So a crash damages no more than that, and a line,
	// at the end of the file.
	part    = 4 << 20
	maxLine = 1 << 20
	window  = 2 * (part + maxLine)
	// lockPause is how long Open waits before it tries the lock again.
	lockPause = 10 * time.Millisecond
)

// Open opens the file of a session that the caller has opened, and makes it if there is none. While
// another process has the file open, it waits until the context ends. It removes lines at the end
// that a crash has left unfinished.
func Open(ctx context.Context, path string, o client.Opened, options Options) (*File, error) {
	if options.Mode == 0 {
		options.Mode = 0o600
	}
	file, err := openLocked(ctx, path, options.Mode)
	if err != nil {
		return nil, fmt.Errorf("open cursor: %w", err)
	}
	f := &File{file: file, options: options, opened: o, suffix: strconv.AppendUint([]byte{'\t'}, o.Life, 10)}
	f.suffix = append(f.suffix, '/')
	if err := f.load(path); err != nil {
		return nil, fmt.Errorf("open cursor: %w", errors.Join(err, file.Close()))
	}
	return f, nil
}

// openLocked opens and locks the file that has the name when it is locked.
func openLocked(ctx context.Context, path string, mode os.FileMode) (*os.File, error) {
	for {
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, mode) //nolint:gosec // the file of the caller
		if err != nil {
			return nil, err
		}
		if err = files.Lock(file); err == nil {
			mine, err1 := file.Stat()
			named, err2 := os.Stat(path)
			if err1 == nil && err2 == nil && os.SameFile(mine, named) {
				return file, nil
			}
			err = files.ErrLocked
		}
		if err = errors.Join(err, file.Close()); !errors.Is(err, files.ErrLocked) {
			return nil, err
		}
		timer := time.NewTimer(lockPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("wait for %s: %w", path, errors.Join(context.Cause(ctx), err))
		case <-timer.C:
		}
	}
}

// load finds the last whole line, and removes what a crash has left after it.
func (f *File) load(path string) error {
	info, err := f.file.Stat()
	if err != nil {
		return err
	}
	from := max(0, info.Size()-window)
	tail := make([]byte, info.Size()-from)
	if _, err := f.file.ReadAt(tail, from); err != nil {
		return err
	}
	whole := tail
	if i := bytes.IndexByte(whole, 0); i >= 0 { // pages that were not written before the crash
		whole = whole[:i]
	}
	whole = whole[:bytes.LastIndexByte(whole, '\n')+1]
	if len(whole) == 0 && from > 0 {
		return &DamagedError{Path: path}
	}
	life, number, ok := lastNumber(whole)
	switch {
	case !ok:
		return &DamagedError{Path: path}
	case life > f.opened.Life:
		return fmt.Errorf("%s has a later life of the session: %w", path, client.Fenced)
	case life == f.opened.Life:
		f.number = number
	}
	torn := len(whole) < len(tail)
	switch {
	case torn && len(whole) > 0 && life == f.opened.Life && number < f.opened.Cursor:
		return &DamagedError{Path: path, Number: number, Cursor: f.opened.Cursor}
	case f.number == 0 && f.opened.Cursor > 0 && f.options.From == nil:
		return &client.LostCursorError{Cursor: f.opened.Cursor}
	case f.number == 0 && f.opened.Cursor > 0:
		f.number = *f.options.From
	}
	f.size = from + int64(len(whole))
	if torn {
		if err := f.file.Truncate(f.size); err != nil {
			return err
		}
	}
	// Lines of a process that was killed may not be durable yet.
	if err := f.sync(); err != nil || info.Size() > 0 {
		return err
	}
	return files.SyncFolder(filepath.Dir(path))
}

// lastNumber returns the life and the number of the last line; both are 0 if there is none.
func lastNumber(lines []byte) (life, number uint64, ok bool) {
	if len(lines) == 0 {
		return 0, 0, true
	}
	line := lines[:len(lines)-1]
	line = line[bytes.LastIndexByte(line, '\n')+1:]
	tab := bytes.LastIndexByte(line, '\t')
	if tab < 0 {
		return 0, 0, false
	}
	first, second, found := bytes.Cut(line[tab+1:], []byte{'/'})
	life, err1 := strconv.ParseUint(string(first), 10, 64)
	number, err2 := strconv.ParseUint(string(second), 10, 64)
	return life, number, found && err1 == nil && err2 == nil && number > 0
}

// Number returns the number of the last entry that was processed.
func (f *File) Number() uint64 { return f.number }

// ErrText says that the text of a line has a newline or a zero byte, or is longer than 1 MiB.
var ErrText = errors.New("the text of a line must have no newline and no zero byte, and at most 1 MiB")

// ErrBroken says that a file has lines that may not be durable, and that can't be removed.
var ErrBroken = errors.New("the file has lines that may not be durable")

// Append appends a line for each entry and moves the number to another one, durably. text appends the
// text of a line to a slice; an entry without text has no line.
//
// After an error the file is as before. It returns the errors of text, [ErrText], a
// [*client.UnknownError] if the file can't be written or made durable, and [ErrBroken] if the lines
// can't be removed after that: then do not open the file again before the disk is repaired.
func (f *File) Append(to uint64, entries []client.Entry, text func(b []byte, e *client.Entry) ([]byte, error)) error {
	if to <= f.number {
		return fmt.Errorf("append lines: number %d is not after %d", to, f.number)
	}
	size, last := f.size, uint64(0)
	f.buffer = f.buffer[:0]
	err := func() error {
		for i := range entries {
			if err := f.add(&entries[i], text, &last); err != nil {
				return err
			}
			if len(f.buffer) >= part {
				if err := f.flush(); err != nil {
					return err
				}
			}
		}
		if last < to {
			f.buffer = f.end(f.buffer, to)
		}
		return f.flush()
	}()
	if err == nil {
		f.number = to
		return nil
	}
	if cut := f.undo(size); cut != nil {
		err = fmt.Errorf("%w: %w", ErrBroken, errors.Join(cut, err))
	}
	return fmt.Errorf("append lines: %w", err)
}

// undo removes the lines after a size.
func (f *File) undo(size int64) error {
	if f.size == size && len(f.buffer) == 0 {
		return nil
	}
	f.size = size
	return f.file.Truncate(size)
}

// add adds the line of an entry to the buffer.
func (f *File) add(e *client.Entry, text func(b []byte, e *client.Entry) ([]byte, error), last *uint64) error {
	at := len(f.buffer)
	b, err := text(f.buffer, e)
	if err != nil {
		return err
	}
	added := b[at:]
	if len(added) > maxLine || bytes.IndexByte(added, '\n') >= 0 || bytes.IndexByte(added, 0) >= 0 {
		return ErrText
	}
	if f.buffer = b; len(added) > 0 {
		f.buffer, *last = f.end(b, e.Number), e.Number
	}
	return nil
}

// end ends a line.
func (f *File) end(b []byte, number uint64) []byte {
	return append(strconv.AppendUint(append(b, f.suffix...), number, 10), '\n')
}

// flush writes the buffer, durably.
func (f *File) flush() error {
	n, err := f.file.WriteAt(f.buffer, f.size)
	if err != nil {
		return &client.UnknownError{Err: err}
	}
	f.size += int64(n)
	f.buffer = f.buffer[:0]
	return f.sync()
}

func (f *File) sync() error {
	if f.options.NoSync {
		return nil
	}
	if err := files.SyncData(f.file); err != nil {
		return &client.UnknownError{Err: err}
	}
	return nil
}

// Close lets another process have the file.
func (f *File) Close() error { return f.file.Close() }
