package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/lease"
	"github.com/effectively-once/once/internal/dedup/sqlstore"
	"github.com/effectively-once/once/internal/dedup/storetest"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/oncesql"
)

// A tokenDatabase is a database to which two replicas connect, each with a pool of its own.
type tokenDatabase struct {
	dialect sqlstore.Dialect
	pools   [2]*sql.DB
	tables  atomic.Int64
}

func tokensIn(t *testing.T, dialect sqlstore.Dialect, driver string, sources ...string) *tokenDatabase {
	t.Helper()
	d := &tokenDatabase{dialect: dialect}
	for i := range d.pools {
		db := openCursors(t, driver, sources[i%len(sources)])
		db.SetMaxOpenConns(8)
		db.SetMaxIdleConns(8)
		d.pools[i] = db
	}
	return d
}

func TestTokensInSQLite(t *testing.T) {
	t.Parallel()
	testTokens(t, tokensIn(t, sqlstore.SQLite, "sqlite", "file:"+filepath.Join(t.TempDir(), "a.db")+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)"))
}

func TestTokensInPostgreSQL(t *testing.T) {
	t.Parallel()
	testTokens(t, tokensIn(t, sqlstore.PostgreSQL, "pgx", database(t, "postgres.sh", "POSTGRES_URL")))
}

// The pools count affected rows in the two ways that the driver knows.
func TestTokensInMariaDB(t *testing.T) {
	t.Parallel()
	source := database(t, "mariadb.sh", "MARIADB_DSN")
	more := "?"
	if strings.Contains(source, "?") {
		more = "&"
	}
	testTokens(t, tokensIn(t, sqlstore.MySQL, "mysql", source, source+more+"clientFoundRows=true"))
}

func testTokens(t *testing.T, d *tokenDatabase) {
	t.Run("replicas create the table at the same time", d.createdTogether)
	h := storetest.TokenHarness{Open: d.open, Corrupt: d.corrupt, Abreast: 4}
	t.Run("conformance", func(t *testing.T) { storetest.RunTokens(t, h) })
	t.Run("histories of two replicas are linearizable", func(t *testing.T) { storetest.TokenHistories(t, h, 3000) })
	t.Run("a sweep deletes what has expired, and nothing else", d.swept)
	t.Run("sweeps beside requests delete no live row", d.sweptBesideRequests)
}

// both is a store whose calls are made by the two replicas in turn.
type both struct {
	replicas [2]*sqlstore.Store
	table    string
	n        atomic.Uint64
}

func (b *both) next() *sqlstore.Store { return b.replicas[b.n.Add(1)%2] }

func (b *both) Load(ctx context.Context, groups []record.GroupKey, tokens []record.TokenKey) ([]record.Group, []record.Token, error) {
	return b.next().Load(ctx, groups, tokens)
}

func (b *both) SwapToken(ctx context.Context, old, next record.Token) (record.Token, error) {
	return b.next().SwapToken(ctx, old, next)
}

// stores returns the stores of both replicas, with a new table.
func (d *tokenDatabase) stores(t *testing.T, now func() time.Time) *both {
	t.Helper()
	b := &both{table: fmt.Sprintf("once_token_%d", d.tables.Add(1))}
	for i, db := range d.pools {
		s, err := sqlstore.New(db, d.dialect, b.table, now)
		must(t, err)
		b.replicas[i] = s
	}
	must(t, b.replicas[0].Create(t.Context()))
	return b
}

func (d *tokenDatabase) open(t *testing.T, now func() time.Time) lease.Store {
	t.Helper()
	return d.stores(t, now)
}

func (d *tokenDatabase) corrupt(t *testing.T, s lease.Store, _ record.TokenKey) {
	t.Helper()
	_, err := d.pools[0].ExecContext(t.Context(), "UPDATE "+s.(*both).table+" SET format = 77")
	must(t, err)
}

func (d *tokenDatabase) createdTogether(t *testing.T) {
	table := fmt.Sprintf("once_token_%d", d.tables.Add(1))
	errs := make([]error, 8)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			errs[i] = oncesql.Table{DB: d.pools[i%2], Dialect: oncesql.Dialect(d.dialect), Name: table}.Create(t.Context())
		})
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			t.Errorf("replica %d: create table: %v; want it to be there", i, err)
		}
	}
}

func (d *tokenDatabase) rows(t *testing.T, table string) (n int) {
	t.Helper()
	must(t, d.pools[0].QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n))
	return n
}

func sqlToken(i int, expires time.Time) record.Token {
	return record.Token{Key: record.NewTokenKey("", "sweep", fmt.Sprint(i)), State: record.Done, Owner: "a", Epoch: 1, Expires: expires}
}

func (d *tokenDatabase) swept(t *testing.T) {
	now := time.Now()
	b := d.stores(t, func() time.Time { return now })
	const old, young, live = 250, 3, 5
	for i := range old + young + live {
		expires := now.Add(-time.Hour)
		switch {
		case i >= old+young:
			expires = now.Add(time.Hour)
		case i >= old: // in the minute for clocks that differ
			expires = now.Add(-time.Second)
		}
		_, err := b.SwapToken(t.Context(), record.Token{Key: sqlToken(i, expires).Key}, sqlToken(i, expires))
		must(t, err)
	}
	deleted, err := b.next().Sweep(t.Context())
	if rows := d.rows(t, b.table); err != nil || deleted != old || rows != young+live {
		t.Errorf("sweep: deleted %d rows, %d are left, %v; want %d, %d and no error", deleted, rows, err, old, young+live)
	}
	if deleted, err := b.next().Sweep(t.Context()); deleted != 0 || err != nil {
		t.Errorf("second sweep: deleted %d rows, %v; want none", deleted, err)
	}
}

// Requests take over rows that have expired, again and again, while two replicas sweep: a row that
// was just written must be there.
func (d *tokenDatabase) sweptBesideRequests(t *testing.T) {
	b := d.stores(t, time.Now)
	const keys, rounds = 4, 60
	ctx, stop := context.WithCancel(t.Context())
	var sweeps, requests sync.WaitGroup
	var deleted atomic.Int64
	for _, s := range b.replicas {
		sweeps.Go(func() {
			for ctx.Err() == nil {
				n, err := s.Sweep(ctx)
				if deleted.Add(int64(n)); err != nil && ctx.Err() == nil {
					t.Logf("sweep: %v", err) // a deadlock is an error of a sweep, and of no request
				}
			}
		})
	}
	for k := range keys {
		requests.Go(func() {
			key := sqlToken(k, time.Time{}).Key
			for round := range rounds {
				expired := record.Token{Key: key, State: record.Done, Owner: fmt.Sprint(round), Epoch: 1, Expires: time.Now().Add(-time.Hour)}
				live := expired
				live.Epoch, live.Expires = 2, time.Now().Add(time.Hour)
				over := live
				over.Epoch, over.Expires = 3, time.Now().Add(-time.Hour)
				for _, step := range []struct{ old, next record.Token }{{record.Token{Key: key}, expired}, {record.Token{Key: key}, live}} {
					if err := swapUntil(t, b, step.old, step.next); err != nil {
						t.Errorf("key %d, round %d: swap: %v; want it to be applied", k, round, err)
					}
				}
				_, tokens, err := b.Load(t.Context(), nil, []record.TokenKey{key})
				if err != nil || tokens[0].Epoch != live.Epoch || tokens[0].Owner != live.Owner {
					t.Errorf("key %d, round %d: loaded %+v, %v; want the token that was just written", k, round, tokens, err)
				}
				if err := swapUntil(t, b, live, over); err != nil {
					t.Errorf("key %d, round %d: swap of the live token: %v; want it to be applied", k, round, err)
				}
			}
		})
	}
	requests.Wait()
	stop()
	sweeps.Wait()
	if deleted.Load() == 0 {
		t.Error("the sweeps have deleted nothing: nothing is shown")
	}
}

// swapUntil repeats a swap after errors that are no conflict, as the guard does.
func swapUntil(t *testing.T, s lease.Store, old, next record.Token) (err error) {
	t.Helper()
	for range 10 {
		if _, err = s.SwapToken(t.Context(), old, next); err == nil || errors.Is(err, record.ErrConflict) {
			return err
		}
	}
	return err
}
