// Package sqlstore keeps tokens in a table of PostgreSQL, MySQL, MariaDB or SQLite. It implements
// the store of package lease, and uses database/sql without any driver.
//
// # Conditions
//
// A swap is one statement in a transaction of its own, with its condition in the statement: an
// INSERT that leaves a live row alone, or an UPDATE or DELETE of the row with a state, owner and
// epoch. Its condition is decided on the row as it is committed last, under a lock on the row:
//
//   - PostgreSQL, READ COMMITTED: an UPDATE, a DELETE and an ON CONFLICT DO UPDATE wait for the
//     lock, and then decide their condition again on the newest version. Under REPEATABLE READ and
//     SERIALIZABLE they fail instead; that is an error, and nothing was applied.
//   - MySQL and MariaDB: these statements read the newest committed version at every isolation
//     level.
//   - SQLite: there is one writer at a time.
//
// If a statement has changed no row, the row is read to find out why. A swap never reads first and
// writes afterwards without a condition.
//
// # Affected rows
//
// MySQL counts the rows that an UPDATE has changed, or with clientFoundRows those that it has
// found. Every write raises the column "writes", so that both counts are the same.
//
// # Errors
//
// record.ErrConflict and record.ErrCorrupt are as the port defines them. After any other error a
// write may have been applied or not.
package sqlstore
