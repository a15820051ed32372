package filecursor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/effectively-once/once/client"
)

// Consume appends the entries of a session to a file, until the context ends, or until the session
// has ended; then it returns nil. text appends the text of an entry to a slice; an entry without
// text has no line. [client.Client.Consume] describes what happens if text fails, and while another
// consumer holds the session. If the file is of another session, Consume returns a [*DamagedError]
// and does not open the session. If the file is broken, Consume returns [ErrBroken].
func Consume(
	ctx context.Context, c *client.Client, o client.SessionOptions, path string, options Options, text func(b []byte, e *client.Entry) ([]byte, error),
) error {
	if err := checkFirst(path, o); err != nil {
		return fmt.Errorf("open cursor: %w", err)
	}
	return c.ConsumeWith(ctx, o, &worker{path: path, options: options, text: text})
}

// checkFirst returns an error if a file is of another session. An open would create the session,
// and the pool would deal entries to it. Every other mistake is found by [Open], under the lock.
func checkFirst(path string, o client.SessionOptions) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.Mode().IsRegular(): // to read a pipe would wait for a writer
		return fmt.Errorf("%s is not a regular file", path)
	}
	file, err := os.Open(path) //nolint:gosec // the file of the caller
	if err != nil {
		return err
	}
	first, err := io.ReadAll(io.LimitReader(file, maxFirst))
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	f := &File{path: path, opened: client.Opened{Stream: o.Stream, Group: o.Group, Name: o.Name}}
	if f.unborn(first) {
		return nil
	}
	return f.check(first)
}

// A worker implements [client.Worker].
type worker struct {
	path    string
	options Options
	text    func(b []byte, e *client.Entry) ([]byte, error)
	file    *File
}

func (w *worker) Begin(ctx context.Context, o client.Opened) (number uint64, err error) {
	if w.file, err = Open(ctx, w.path, o, w.options); err != nil {
		return 0, err
	}
	return w.file.Number(), nil
}

func (w *worker) Do(_ context.Context, b *client.Batch) error {
	var failed error // of text
	err := w.file.Append(b.To, b.Entries, func(line []byte, e *client.Entry) ([]byte, error) {
		var out []byte
		out, failed = w.text(line, e)
		return out, failed
	})
	switch {
	case errors.Is(err, ErrBroken):
		return &client.FinalError{Err: err}
	case failed != nil:
		if _, unknown := errors.AsType[*client.UnknownError](failed); !unknown {
			return &client.TryError{Err: failed}
		}
	}
	return err
}

func (w *worker) End() error { return w.file.Close() }
