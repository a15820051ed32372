// Package sqlcursor keeps the number of a session in a SQL database, in the same transaction as the
// work of its consumer. Each entry of the session then changes the database once, also after
// crashes, and while an old consumer still runs.
//
//	table := sqlcursor.Table{DB: db, Dialect: sqlcursor.PostgreSQL}
//	err := table.Consume(ctx, c, client.SessionOptions{Stream: "orders", Name: "a"},
//		func(ctx context.Context, tx *sql.Tx, entries []client.Entry) error {
//			for _, e := range entries {
//				if _, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES ($1, $2)", e.ID, e.Body); err != nil {
//					return err
//				}
//			}
//			return nil
//		})
//
// The numbers are in a table that [Dialect.CreateTable] makes. The table of the work needs no
// unique index. Any driver of database/sql works.
//
// # The work
//
// The work must return every error of its transaction, also if it can continue without the
// statement: PostgreSQL rolls back the whole transaction then. It must not call Commit or Rollback.
// In MySQL and MariaDB it must not execute statements that commit implicitly, such as CREATE TABLE
// and other definitions: the statements before them would be committed without the number.
//
// # Errors
//
// An error of the work is a failed try, and so is an error of the database about rows that the work
// has written, also if the database checks it when it commits. The transaction is rolled back.
//
// Errors of the database that have nothing to do with the entries, such as lost connections,
// deadlocks and a busy SQLite file, are [*client.UnknownError]: the session is opened again, and no
// try is counted. The same error is one of the work if it comes from another system: the database
// has then rolled back the transaction, so it can be reached.
//
// An error for which errors.Is(err, client.Fenced) is true says that the transaction was rolled
// back because another consumer has raised the fence. A [*client.LostCursorError] says that the
// table has no number of a session that has processed entries, and a [*client.SkipError] that
// [Table.From] would skip entries.
//
// # SQLite
//
// Let transactions wait for each other, and take the lock of the file when they begin: for
// modernc.org/sqlite, open the file with
// ?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL).
//
// # Limits
//
// If the context of a statement ends, some drivers close the connection, as pgx does. That counts
// no try, because it looks like a database that can't be reached. Limit slow statements in the
// database, for example by statement_timeout in PostgreSQL.
//
// A consumer that is stopped in the middle of a transaction (SIGSTOP, a suspended machine) keeps
// the locks of its rows until the database ends the transaction. Configure a limit, for example
// idle_in_transaction_session_timeout in PostgreSQL. SQLite has none: another consumer waits until
// the stopped process continues or is killed.
//
// Before the database is restored from a backup, stop all consumers and retires of its sessions.
// They then continue at the restored number.
//
// The row of a retired session can be deleted when no transaction of its consumers can be running
// any more.
package sqlcursor
