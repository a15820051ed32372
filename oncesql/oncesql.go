// Package oncesql keeps the tokens of decorators and middleware in a table of PostgreSQL, MySQL,
// MariaDB or SQLite, for services with replicas that have a database already. Any driver of
// database/sql works; the package imports none.
//
//	table := oncesql.Table{DB: db, Dialect: oncesql.PostgreSQL}
//	if err := table.Create(ctx); err != nil { // or run oncesql.PostgreSQL.Schema as a migration
//		return err
//	}
//	go table.SweepEvery(ctx, time.Hour, log)
//	tokens, err := table.Tokens()
//	...
//	mux.Handle("POST /charges", once.Middleware(tokens, once.MiddlewareConfig{})(charge))
//
// # The database
//
// All replicas must write to the same database. Read replicas of a database may be behind it: give
// db the address of the primary. Commits must be durable. With synchronous_commit=off in
// PostgreSQL, or innodb_flush_log_at_trx_commit other than 1, a database that crashes forgets the
// last messages, and these can run again.
//
// Each call of the store is a statement with a transaction of its own, which is right at every
// isolation level: its condition is decided on the newest committed row, under the lock on the row.
// No lock is held while a handler runs, and no connection either. The work of a handler is not in
// the same transaction.
//
// For SQLite, open the file so that writers wait for each other: with modernc.org/sqlite
// ?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL). Without that, an error of a busy file is
// an error of the store.
//
// # The table
//
//	id       SHA-256 of principal, stream or name, and id: the table shows no key of a caller
//	format   1, the version of this format
//	state    2 leased, 3 done
//	owner    of an attempt, unique
//	epoch    counts takeovers; with owner, the fence
//	lease    the end of the lease, in milliseconds of Unix time
//	expires  when the row counts as absent, in milliseconds of Unix time
//	writes   counts the writes of the row
//	content  the reply and a hash of the message, in CBOR
//
// Several services may share a table if their names or streams differ.
//
// # Expired rows
//
// An expired row counts as absent at once. [Table.Sweep] deletes it later: call it from a job, or
// let [Table.SweepEvery] do it in the background. Both are safe beside running requests.
//
// # Limits
//
// A reply has to fit into a packet of the database: MySQL and MariaDB limit them by
// max_allowed_packet, which is 16 MB or more by default.
package oncesql

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/internal/backoff"
	"github.com/effectively-once/once/internal/dedup/sqlstore"
	"github.com/effectively-once/once/internal/system"
)

// Dialect is the kind of a database.
type Dialect string

// The dialects. MySQL is also for MariaDB.
const (
	PostgreSQL Dialect = "postgresql"
	MySQL      Dialect = "mysql"
	SQLite     Dialect = "sqlite"
)

// DefaultTable is the name of the table.
const DefaultTable = "once_token"

// Schema returns the statements that create a table and its index if they do not exist. Each ends
// with a semicolon and a line break. An empty name is [DefaultTable]; see [Table] for other names.
func (d Dialect) Schema(table string) string {
	return strings.Join(sqlstore.Dialect(d).Schema(cmp.Or(table, DefaultTable)), ";\n") + ";\n"
}

// A Table is a table of tokens. Its methods may be used concurrently.
type Table struct {
	// DB and Dialect are required. A request waits for its tokens while all connections of the pool
	// are in use.
	DB      *sql.DB
	Dialect Dialect
	// Name is the name of the table: letters, digits and underscores, with an optional schema.
	// Defaults to [DefaultTable].
	Name string
}

func (t Table) store() (*sqlstore.Store, error) {
	return sqlstore.New(t.DB, sqlstore.Dialect(t.Dialect), cmp.Or(t.Name, DefaultTable), nil)
}

// Tokens returns the tokens in the table. It makes no call, so a missing table shows when the first
// message is handled. It returns an error if DB is nil, or the dialect or the name is invalid.
func (t Table) Tokens() (*once.Tokens, error) {
	s, err := t.store()
	if err != nil {
		return nil, fmt.Errorf("open tokens: %w", err)
	}
	return system.NewTokens(s).(*once.Tokens), nil
}

// Create creates the table and its index if they do not exist, also if several replicas do so at
// the same time. It changes no table that exists.
func (t Table) Create(ctx context.Context) error {
	s, err := t.store()
	if err != nil {
		return fmt.Errorf("create table: %w", err)
	}
	return s.Create(ctx)
}

// Sweep deletes the rows that expired more than a minute ago, in batches of 100, and returns how
// many it has deleted, also if it returns an error. It may run while requests run, and in several
// replicas at the same time.
func (t Table) Sweep(ctx context.Context) (deleted int, err error) {
	s, err := t.store()
	if err != nil {
		return 0, fmt.Errorf("sweep: %w", err)
	}
	return s.Sweep(ctx)
}

// SweepEvery calls Sweep until the context ends: now, and then with pauses of about the given time,
// which is at least a second. The pauses differ by a fifth, so that replicas which start together
// do not sweep together. It logs errors and continues. A nil log discards them.
func (t Table) SweepEvery(ctx context.Context, pause time.Duration, log *slog.Logger) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	pause = max(pause, time.Second)
	for {
		if deleted, err := t.Sweep(ctx); err != nil && ctx.Err() == nil {
			log.Error("expired tokens not swept", "deleted", deleted, "error", err.Error())
		}
		if backoff.Sleep(ctx, pause+rand.N(pause/5)) != nil { //nolint:gosec // jitter, not a secret
			return
		}
	}
}
