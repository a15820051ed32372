package filecursor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/client/internal/files"
)

// Options configure a [File]. Zero fields take the defaults in their comments.
type Options struct {
	// From is the number to continue after if the file has no line of a session that has processed
	// entries. Entries that were processed after From are processed again, and those before it are
	// left out. It must not be after the last entry that was reported as processed: then Open
	// returns a [*client.SkipError]. Defaults to none: then Open returns a
	// [*client.LostCursorError].
	From *uint64
	// Mode is the mode of a new file. Defaults to 0600.
	Mode os.FileMode
	// MustExist makes Open return an error, for which errors.Is(err, fs.ErrNotExist) is true, if
	// there is no such file. By default it makes one.
	MustExist bool
	// NoSync leaves out the fdatasync: lines are then lost if the machine crashes, and Open may
	// report that. Defaults to false.
	NoSync bool
}

// A DamagedError says that a file does not have the lines that it should have. The file was not
// changed.
type DamagedError struct {
	Path string
	// Session is the session that the file belongs to, as in [client.Batch.Identity] without life
	// and number, if it is another one; otherwise it is empty.
	Session string
	// Number is the number of the last whole line, and Cursor the last number that was reported as
	// processed; both are 0 if the file has other content.
	Number, Cursor uint64
}

// Error returns the path and the reason.
func (e *DamagedError) Error() string {
	switch {
	case e.Session != "":
		return e.Path + " is the file of another session: " + e.Session
	case e.Cursor == 0:
		return e.Path + " has content that is not of a session"
	}
	return fmt.Sprintf("%s is cut off after entry %d, but entries up to %d were reported as processed", e.Path, e.Number, e.Cursor)
}

// A File is the open file of a session. Its methods are for one goroutine.
type File struct {
	disk    disk
	path    string
	options Options
	opened  client.Opened
	number  uint64
	size    int64
	buffer  []byte
	suffix  []byte // the text between a line and its number
}

// A disk has the content of a file.
type disk interface {
	io.ReaderAt
	io.WriterAt
	Truncate(size int64) error
	// Sync makes the content and the size durable.
	Sync() error
	Size() (int64, error)
	Close() error
}

type osDisk struct{ *os.File }

func (d osDisk) Sync() error { return files.SyncData(d.File) }

func (d osDisk) Size() (int64, error) {
	info, err := d.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// lockPause is how long Open waits before it tries the lock again.
const lockPause = 10 * time.Millisecond

// Open opens the file of a session that the caller has opened, and makes it if there is none. While
// another process has the file open, it waits until the context ends. It removes lines at the end
// that a crash has left unfinished.
//
// It returns a [*DamagedError], a [*client.LostCursorError], a [*client.SkipError], or an error for
// which errors.Is(err, client.Fenced) is true if the file has lines of a later life of the session.
func Open(ctx context.Context, path string, o client.Opened, options Options) (*File, error) {
	options.Mode = cmp.Or(options.Mode, 0o600)
	file, err := openLocked(ctx, path, &options)
	if err != nil {
		return nil, fmt.Errorf("open cursor: %w", err)
	}
	f := &File{disk: osDisk{file}, path: path, options: options, opened: o}
	if err := f.load(); err != nil {
		return nil, fmt.Errorf("open cursor: %w", errors.Join(err, file.Close()))
	}
	return f, nil
}

// openLocked opens and locks the file that has the name when it is locked.
func openLocked(ctx context.Context, path string, o *Options) (*os.File, error) {
	flag := os.O_RDWR | os.O_CREATE
	if o.MustExist {
		flag = os.O_RDWR
	}
	for {
		file, err := os.OpenFile(path, flag, o.Mode) //nolint:gosec // the file of the caller
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

// Number returns the number of the last entry that was processed.
func (f *File) Number() uint64 { return f.number }

// Close lets another process have the file.
func (f *File) Close() error { return f.disk.Close() }

// end ends a line.
func (f *File) end(b []byte, number uint64) []byte {
	return append(strconv.AppendUint(append(b, f.suffix...), number, 10), '\n')
}
