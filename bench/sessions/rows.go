package main

import (
	"context"
	"database/sql"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	_ "modernc.org/sqlite"             // the driver sqlite
)

const (
	batch   = 10
	effort  = 5 * time.Millisecond // of a batch
	columns = "CREATE TABLE IF NOT EXISTS rows (id TEXT)"
)

// openRows opens the table in a file of SQLite.
func openRows(path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(60000)&_pragma=journal_mode(wal)&_pragma=synchronous(normal)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(context.Background(), columns)
	return db, err
}

// execer is a transaction.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func insert(ctx context.Context, tx execer, ids []string) error {
	for _, id := range ids {
		if _, err := tx.ExecContext(ctx, "INSERT INTO rows VALUES ($1)", id); err != nil {
			return err
		}
	}
	return nil
}

// work does the work of a batch: it takes some time, and inserts the rows in one transaction.
func work(ctx context.Context, db *sql.DB, ids []string) error {
	time.Sleep(effort)
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // no effect after the commit
	if err := insert(ctx, tx, ids); err != nil {
		return err
	}
	return tx.Commit()
}

// count returns the number of rows, and of ids among them.
func count(ctx context.Context, db *sql.DB) (rows, ids int, err error) {
	err = db.QueryRowContext(ctx, "SELECT count(*), count(DISTINCT id) FROM rows").Scan(&rows, &ids)
	return rows, ids, err
}
