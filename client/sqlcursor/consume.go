package sqlcursor

import (
	"context"
	"database/sql"
	"errors"

	"github.com/effectively-once/once/client"
)

// Consume processes the entries of a session in transactions, until the context ends, or until the
// session has ended; then it returns nil. work gets the entries in order, must use tx for all that
// it writes, and must return every error of tx. [client.Client.Consume] describes what happens if
// work fails, and while another consumer holds the session.
func (t Table) Consume(
	ctx context.Context, c *client.Client, o client.SessionOptions, work func(ctx context.Context, tx *sql.Tx, entries []client.Entry) error,
) error {
	return c.ConsumeWith(ctx, o, &worker{table: t, work: work})
}

// A worker implements [client.Worker].
type worker struct {
	table  Table
	work   func(ctx context.Context, tx *sql.Tx, entries []client.Entry) error
	cursor *Cursor
}

func (w *worker) Begin(ctx context.Context, o client.Opened) (number uint64, err error) {
	if w.cursor, err = w.table.Open(ctx, o); err != nil {
		return 0, err
	}
	return w.cursor.Number(), nil
}

func (w *worker) Do(ctx context.Context, b *client.Batch) error {
	var failed error
	err := w.cursor.Do(ctx, b.To, func(tx *sql.Tx) error {
		if len(b.Entries) > 0 {
			failed = w.work(ctx, tx, b.Entries)
		}
		return failed
	})
	if _, unknown := errors.AsType[*client.UnknownError](err); failed != nil && !unknown {
		return &client.TryError{Err: err}
	}
	return err
}

func (*worker) End() error { return nil }
