package main

import (
	"context"
	"database/sql"
	"strconv"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	_ "modernc.org/sqlite"             // the driver sqlite

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/client/sqlcursor"
)

// rowsTable has no unique index, so the database would keep a row that is inserted twice.
const rowsTable = `CREATE TABLE IF NOT EXISTS rows (id TEXT, session TEXT, number BIGINT)`

// isPostgres reports whether a data source is a URL of PostgreSQL; otherwise it is a file of
// SQLite.
func isPostgres(source string) bool { return strings.Contains(source, "://") }

// openDatabase opens the database of the consumers. Writers wait for each other. The database syncs
// each transaction before it is committed.
func openDatabase(source string) (*sql.DB, error) {
	if isPostgres(source) {
		return sql.Open("pgx", source)
	}
	db, err := sql.Open("sqlite", "file:"+source+"?_pragma=busy_timeout(60000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// tableOf returns the table of the cursors.
func tableOf(db *sql.DB, source string) sqlcursor.Table {
	if isPostgres(source) {
		return sqlcursor.Table{DB: db, Dialect: sqlcursor.PostgreSQL}
	}
	return sqlcursor.Table{DB: db, Dialect: sqlcursor.SQLite}
}

// prepare removes the rows of an earlier run.
func prepare(ctx context.Context, db *sql.DB, source string) error {
	for _, statement := range []string{"DROP TABLE IF EXISTS rows", "DROP TABLE IF EXISTS once_cursor", rowsTable, tableOf(db, source).Dialect.CreateTable(sqlcursor.DefaultTable)} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// insert inserts a row for each entry, rowsAtOnce of them in one statement.
func insert(ctx context.Context, tx *sql.Tx, session string, entries []client.Entry) error {
	const rowsAtOnce = 500
	for len(entries) > 0 {
		n := min(rowsAtOnce, len(entries))
		args := make([]any, 0, 3*n)
		for i := range entries[:n] {
			args = append(args, entries[i].ID, session, int64(entries[i].Number)) //nolint:gosec // far below the limit
		}
		if _, err := tx.ExecContext(ctx, insertOf(n), args...); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

// insertOf returns the statement that inserts n rows.
func insertOf(n int) string {
	var b strings.Builder
	b.WriteString("INSERT INTO rows VALUES ")
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		for column, before := range []string{"($", ",$", ",$"} {
			b.WriteString(before)
			b.WriteString(strconv.Itoa(3*i + column + 1))
		}
		b.WriteByte(')')
	}
	return b.String()
}

// count returns the number of rows, and of ids among them.
func count(ctx context.Context, db *sql.DB) (rows, ids int, err error) {
	err = db.QueryRowContext(ctx, "SELECT count(*), count(DISTINCT id) FROM rows").Scan(&rows, &ids)
	return rows, ids, err
}

// processed returns the number of entries that the sessions have processed, by their cursors.
func processed(ctx context.Context, db *sql.DB) (n int, err error) {
	err = db.QueryRowContext(ctx, "SELECT CAST(coalesce(sum(number), 0) AS BIGINT) FROM once_cursor").Scan(&n)
	return n, err
}
