package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/client/sqlcursor"
)

// consume is a consumer process: each entry of a session becomes a row, in the transaction that
// moves the cursor. It ends if another consumer takes the session.
func consume(url, stream, session, holder string, take client.Take, source string) error {
	db, err := openDatabase(source)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	c, err := newClient(url, func(err error, _ time.Duration) {
		if errors.Is(err, client.Fenced) {
			cancel(err)
		}
	})
	if err != nil {
		return err
	}
	o := client.SessionOptions{Stream: stream, Name: session, Holder: holder, Take: take, Lease: lease}
	err = c.ConsumeWith(ctx, o, &worker{table: tableOf(db, source)})
	switch {
	case errors.Is(context.Cause(ctx), client.Fenced):
		fmt.Println(eventFenced)
	case err != nil:
		return err
	default:
		fmt.Println(eventEnd)
	}
	return db.Close()
}

func newClient(url string, onRetry func(error, time.Duration)) (*client.Client, error) {
	return client.New(url, client.Options{MinBackoff: 20 * time.Millisecond, MaxBackoff: 500 * time.Millisecond, OnRetry: onRetry})
}

// A worker is that of [sqlcursor.Table.Consume], and prints when it has the session.
type worker struct {
	table   sqlcursor.Table
	cursor  *sqlcursor.Cursor
	session string
}

func (w *worker) Begin(ctx context.Context, o client.Opened) (number uint64, err error) {
	if w.cursor, err = w.table.Open(ctx, o); err != nil {
		return 0, err
	}
	w.session = o.Name
	fmt.Println(eventOpen)
	return w.cursor.Number(), nil
}

func (w *worker) Do(ctx context.Context, b *client.Batch) error {
	return w.cursor.Do(ctx, b.To, func(tx *sql.Tx) error { return insert(ctx, tx, w.session, b.Entries) })
}

func (*worker) End() error { return nil }
