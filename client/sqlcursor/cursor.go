package sqlcursor

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/effectively-once/once/client"
)

// A Table is the table with the numbers of sessions.
type Table struct {
	// DB and Dialect are required.
	DB      *sql.DB
	Dialect Dialect
	// Name is the name of the table. Defaults to [DefaultTable].
	Name string
	// From is the number to continue after if the table has no number of a session that has
	// processed entries, because the database was lost. Entries that were processed after From are
	// processed again, and those before it are left out. It must not be after the last entry that
	// was reported as processed: then Open returns a [*client.SkipError]. Defaults to none: then
	// Open returns a [*client.LostCursorError].
	From *uint64
	// Tx are the options of the transactions. Defaults to those of the driver.
	Tx *sql.TxOptions
}

// A Cursor is the number of a session that was opened. Its methods are for one goroutine.
type Cursor struct {
	table  Table
	stream string
	opened client.Opened
	number uint64
}

// Open raises the fence of a session that the caller has opened, and reads its number in the same
// step. A transaction of another consumer either comes before it, and is in the number, or fails.
//
// It returns an error for which errors.Is(err, client.Fenced) is true if a higher fence is there, a
// [*client.LostCursorError], a [*client.SkipError], or a [*client.UnknownError]. It can be
// repeated.
func (t Table) Open(ctx context.Context, o client.Opened) (*Cursor, error) {
	t.Name = cmp.Or(t.Name, DefaultTable)
	if err := t.Dialect.validate(t.Name); err != nil {
		return nil, fmt.Errorf("open cursor: %w", err)
	}
	c := &Cursor{table: t, stream: o.Stream, opened: o}
	if o.Group != "" {
		c.stream += "/" + o.Group
	}
	from := uint64(0)
	if t.From != nil && *t.From <= o.Cursor {
		from = *t.From
	}
	fence, err := c.raise(ctx, from)
	switch {
	case err != nil && temporary(err):
		return nil, fmt.Errorf("open cursor: %w", unknown(err))
	case err != nil:
		return nil, fmt.Errorf("open cursor: %w", err)
	case fence != o.Fence:
		return nil, fmt.Errorf("open cursor: the table has fence %d, not %d: %w", fence, o.Fence, client.Fenced)
	}
	if c.number, err = o.Start(c.number, t.From); err != nil {
		return nil, fmt.Errorf("open cursor: %w", err)
	}
	return c, nil
}

// row returns the parameters that name the row.
func (c *Cursor) row(before ...any) []any {
	return append(before, c.stream, c.opened.Name, c.opened.Life)
}

// raise raises the fence and reads the number.
func (c *Cursor) raise(ctx context.Context, from uint64) (fence uint64, err error) {
	d, statement := c.table.Dialect, c.table.Dialect.raise(c.table.Name)
	if d != MySQL {
		err = c.table.DB.QueryRowContext(ctx, statement, append(c.row(), c.opened.Fence, from)...).Scan(&fence, &c.number)
		return fence, err
	}
	// MySQL returns nothing from this statement. It locks the row, so that the number can't change
	// before it is read in the same transaction.
	_, err = c.transact(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, statement, append(c.row(), c.opened.Fence, from)...); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, d.selectRow(c.table.Name), c.row()...).Scan(&fence, &c.number)
	})
	return fence, err
}

// Number returns the number of the last entry that was processed.
func (c *Cursor) Number() uint64 { return c.number }

// errMoved says that the row has another fence or number, so that nothing was changed.
var errMoved = fmt.Errorf("the row has another fence or number: %w", client.Fenced)

// Do calls work and moves the number, to a higher one, in one transaction. work must use tx for all
// that it writes, must return every error of tx, and must neither commit it nor roll it back. The
// number is moved after the work, so that its row is locked briefly.
//
// After an error for which errors.Is(err, client.Fenced) is true, the transaction is rolled back:
// another consumer has raised the fence. After a [*client.UnknownError] the transaction may be
// committed, or may still be: open the session and the cursor again before anything else. After any
// other error, of work or of the database about what work has written, it is rolled back too.
func (c *Cursor) Do(ctx context.Context, to uint64, work func(tx *sql.Tx) error) error {
	if to <= c.number {
		return fmt.Errorf("move number: %d is not after %d", to, c.number)
	}
	worked := false
	definite, err := c.transact(ctx, func(tx *sql.Tx) error {
		if err := work(tx); err != nil {
			return err
		}
		worked = true
		return c.move(ctx, tx, to)
	})
	switch {
	case err == nil:
		c.number = to
		return nil
	case errors.Is(err, errMoved):
		return err
	// Errors of the network that work returns are those of its own calls: the database has rolled
	// back, so it can be reached.
	case definite && !retryable(err) && (!worked || !disconnected(err)):
		return err
	}
	return unknown(err)
}

// move moves the number in a transaction.
func (c *Cursor) move(ctx context.Context, tx *sql.Tx, to uint64) error {
	result, err := tx.ExecContext(ctx, c.table.Dialect.move(c.table.Name), append(c.row(to), c.opened.Fence, c.number)...)
	if err != nil {
		return fmt.Errorf("move number: %w", err)
	}
	rows, err := result.RowsAffected()
	if err == nil && rows != 1 {
		err = errMoved
	}
	return err
}

// transact runs a transaction. After an error, definite says that the database has answered, and
// that nothing is committed.
func (c *Cursor) transact(ctx context.Context, f func(tx *sql.Tx) error) (definite bool, _ error) {
	conn, err := c.table.DB.Conn(ctx)
	if err != nil {
		return false, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close()
	tx, err := conn.BeginTx(ctx, c.table.Tx)
	if err != nil {
		return false, fmt.Errorf("begin transaction: %w", err)
	}
	done := false
	defer func() {
		if !done { // f has panicked
			_ = tx.Rollback()
		}
	}()
	err = f(tx)
	done = true
	if err != nil {
		if failed := tx.Rollback(); failed != nil && !errors.Is(failed, sql.ErrTxDone) { // it is rolled back if ctx has ended
			discard(conn)
			return false, errors.Join(err, failed)
		}
		return true, err
	}
	if err := tx.Commit(); err != nil {
		// The connection may still be in the transaction.
		discard(conn)
		return refused(err), fmt.Errorf("commit: %w", err)
	}
	return true, nil
}

// discard closes a connection instead of using it again.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}
