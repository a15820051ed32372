package filecursor

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/effectively-once/once/client"
)

// ErrText says that the text of a line has a newline or a zero byte, or is longer than 1 MiB.
var ErrText = errors.New("the text of a line must have no newline and no zero byte, and at most 1 MiB")

// ErrBroken says that a file has lines that may not be durable, and that can't be removed.
var ErrBroken = errors.New("the file has lines that may not be durable")

// Append appends a line for each entry and moves the number to another one, durably. text appends
// the text of a line to a slice; an entry without text has no line.
//
// After an error the file is as before. It returns the errors of text, [ErrText], a
// [*client.UnknownError] if the file can't be written or made durable, and [ErrBroken] if the lines
// can't be removed after that: then do not open the file again before the disk is repaired.
func (f *File) Append(to uint64, entries []client.Entry, text func(b []byte, e *client.Entry) ([]byte, error)) error {
	if to <= f.number {
		return fmt.Errorf("append lines: number %d is not after %d", to, f.number)
	}
	before := f.size
	err := f.append(to, entries, text)
	if err == nil {
		f.number = to
		return nil
	}
	if cut := f.undo(before); cut != nil {
		if unknown, ok := errors.AsType[*client.UnknownError](err); ok {
			err = unknown.Err // the consumer must not try again
		}
		err = fmt.Errorf("%w: %w", ErrBroken, errors.Join(cut, err))
	}
	return fmt.Errorf("append lines: %w", err)
}

func (f *File) append(to uint64, entries []client.Entry, text func(b []byte, e *client.Entry) ([]byte, error)) error {
	last := uint64(0)
	f.buffer = f.buffer[:0]
	for i := range entries {
		had := len(f.buffer)
		if err := f.add(&entries[i], text); err != nil {
			return err
		}
		if len(f.buffer) > had {
			last = entries[i].Number
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
}

// add adds the line of an entry to the buffer.
func (f *File) add(e *client.Entry, text func(b []byte, e *client.Entry) ([]byte, error)) error {
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
		f.buffer = f.end(b, e.Number)
	}
	return nil
}

// undo removes the lines after a size, durably: a line that comes back after a crash may be one of
// an entry that became a dead letter since.
func (f *File) undo(size int64) error {
	now, err := f.disk.Size()
	if err != nil || now == size {
		return err
	}
	f.size = size
	if err := f.disk.Truncate(size); err != nil {
		return err
	}
	if err, ok := errors.AsType[*client.UnknownError](f.sync()); ok {
		return err.Err
	}
	return nil
}

// flush writes the buffer, durably.
func (f *File) flush() error {
	n, err := f.disk.WriteAt(f.buffer, f.size)
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
	if err := f.disk.Sync(); err != nil {
		return &client.UnknownError{Err: err}
	}
	return nil
}
