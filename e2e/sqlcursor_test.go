package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/client/sqlcursor"
)

// A cursorDatabase is a database with a table of cursors and the tables of the work.
type cursorDatabase struct {
	*sql.DB
	dialect sqlcursor.Dialect
	fence   uint64
}

func TestCursorsInSQLite(t *testing.T) {
	t.Parallel()
	testCursors(t, &cursorDatabase{DB: openCursors(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "a.db")+"?_pragma=busy_timeout(300)&_pragma=journal_mode(WAL)&_pragma=foreign_keys(1)"), dialect: sqlcursor.SQLite})
}

func TestCursorsInPostgreSQL(t *testing.T) {
	t.Parallel()
	testCursors(t, &cursorDatabase{DB: openCursors(t, "pgx", database(t, "postgres.sh", "POSTGRES_URL")), dialect: sqlcursor.PostgreSQL})
}

func TestCursorsInMariaDB(t *testing.T) {
	t.Parallel()
	source := database(t, "mariadb.sh", "MARIADB_DSN")
	if strings.Contains(source, "?") {
		source += "&"
	} else {
		source += "?"
	}
	testCursors(t, &cursorDatabase{DB: openCursors(t, "mysql", source+"innodb_lock_wait_timeout=1"), dialect: sqlcursor.MySQL})
}

func openCursors(t *testing.T, driver, source string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, source)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func testCursors(t *testing.T, d *cursorDatabase) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, d *cursorDatabase)
		only sqlcursor.Dialect
	}{
		{"errors of the work that the database has not caused are failed tries", foreignErrors, ""},
		{"a violated constraint is a failed try", violated, ""},
		{"a constraint that is violated at the commit is a failed try", violatedAtCommit, ""},
		{"an error that the work has swallowed is a failed try", swallowed, sqlcursor.PostgreSQL},
		{"a lock that another transaction holds is no try", locked, ""},
		{"a connection that is lost is no try", lostConnection, sqlcursor.PostgreSQL},
		{"a connection that is lost at the commit is no try", lostAtCommit, sqlcursor.PostgreSQL},
		{"a transaction that the work has ended is a failed try", endedByWork, ""},
		{"a transaction under a lower fence changes nothing", fencedCursor, ""},
		{"a number is moved once", movedOnce, ""},
		{"a number is moved forward", movedBack, ""},
		{"a number that was lost continues where a person says", lostNumber, ""},
		{"takeovers lose and double nothing", takenOver, ""},
	} {
		if c.only != "" && c.only != d.dialect || c.name == "a constraint that is violated at the commit is a failed try" && d.dialect == sqlcursor.MySQL {
			continue // MySQL checks its constraints in statements, and only PostgreSQL can end connections by a statement
		}
		t.Run(c.name, func(t *testing.T) {
			for _, statement := range []string{
				"DROP TABLE IF EXISTS once_cursor", "DROP TABLE IF EXISTS child", "DROP TABLE IF EXISTS work_done", d.dialect.CreateTable(sqlcursor.DefaultTable),
				"CREATE TABLE work_done (number BIGINT NOT NULL PRIMARY KEY)",
			} {
				d.exec(t, statement)
			}
			c.test(t, d)
		})
	}
}

func (d *cursorDatabase) exec(t *testing.T, statement string) {
	t.Helper()
	_, err := d.ExecContext(t.Context(), statement)
	must(t, err)
}

// session is the session of the tests, opened again.
func (d *cursorDatabase) session() client.Opened {
	d.fence++
	return client.Opened{Stream: "work", Name: "a", Life: 7, Fence: d.fence}
}

func (d *cursorDatabase) open(t *testing.T, o client.Opened) *sqlcursor.Cursor {
	t.Helper()
	for {
		c, err := sqlcursor.Table{DB: d.DB, Dialect: d.dialect}.Open(t.Context(), o)
		if _, unknown := errors.AsType[*client.UnknownError](err); unknown {
			continue // as a consumer does
		}
		must(t, err)
		return c
	}
}

// insert inserts a number in a transaction.
func insert(ctx context.Context, tx *sql.Tx, number uint64) error {
	_, err := tx.ExecContext(ctx, fmt.Sprint("INSERT INTO work_done VALUES (", number, ")"))
	if err != nil {
		return fmt.Errorf("insert row: %w", err)
	}
	return nil
}

// check checks that the numbers up to last are there, and the cursor.
func (d *cursorDatabase) check(t *testing.T, last uint64) {
	t.Helper()
	var n, highest uint64
	must(t, d.QueryRowContext(t.Context(), "SELECT COUNT(*), COALESCE(MAX(number), 0) FROM work_done").Scan(&n, &highest))
	if number := d.open(t, d.session()).Number(); n != last || highest != last || number != last {
		t.Errorf("%d rows up to %d, cursor %d; want %d", n, highest, number, last)
	}
}

// tried checks that work is a failed try, or that its outcome is unknown, and that nothing was
// done.
func (d *cursorDatabase) tried(t *testing.T, unknown bool, work func(tx *sql.Tx) error) {
	t.Helper()
	c := d.open(t, d.session())
	err := c.Do(t.Context(), 1, func(tx *sql.Tx) error {
		if err := insert(t.Context(), tx, 1); err != nil {
			return err
		}
		return work(tx)
	})
	if _, got := errors.AsType[*client.UnknownError](err); err == nil || got != unknown || errors.Is(err, client.Fenced) && !unknown && c.Number() != 0 {
		t.Fatalf("unknown %v: %v", got, err)
	}
	d.check(t, 0)
	c = d.open(t, d.session())
	must(t, c.Do(t.Context(), 1, func(tx *sql.Tx) error { return insert(t.Context(), tx, 1) }))
	d.check(t, 1)
	d.exec(t, "DELETE FROM work_done")
	d.exec(t, "DELETE FROM once_cursor")
}

func foreignErrors(t *testing.T, d *cursorDatabase) {
	for _, err := range []error{
		errors.New("no stock"), io.EOF, io.ErrUnexpectedEOF, fmt.Errorf("decode: %w", io.EOF), context.DeadlineExceeded, context.Canceled,
		&net.OpError{Op: "dial", Err: errors.New("connection refused")}, &client.Problem{Type: client.Fenced, Status: http.StatusConflict},
	} {
		d.tried(t, false, func(*sql.Tx) error { return fmt.Errorf("call the shop: %w", err) })
	}
}

func violated(t *testing.T, d *cursorDatabase) {
	d.tried(t, false, func(tx *sql.Tx) error { return insert(t.Context(), tx, 1) })
}

func violatedAtCommit(t *testing.T, d *cursorDatabase) {
	d.exec(t, "CREATE TABLE child (parent BIGINT NOT NULL REFERENCES work_done (number) DEFERRABLE INITIALLY DEFERRED)")
	d.tried(t, false, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "INSERT INTO child VALUES (99)")
		return err
	})
}

func swallowed(t *testing.T, d *cursorDatabase) {
	d.tried(t, false, func(tx *sql.Tx) error {
		_ = insert(t.Context(), tx, 1)
		return nil
	})
}

// locked has another transaction hold a row that the work wants.
func locked(t *testing.T, d *cursorDatabase) {
	c := d.open(t, d.session())
	conn, err := d.Conn(t.Context())
	must(t, err)
	defer conn.Close()
	begin := map[sqlcursor.Dialect]string{sqlcursor.SQLite: "BEGIN IMMEDIATE"}[d.dialect]
	if begin == "" {
		begin = "BEGIN"
	}
	for _, statement := range []string{begin, "INSERT INTO work_done VALUES (1)"} {
		_, err := conn.ExecContext(t.Context(), statement)
		must(t, err)
	}
	err = c.Do(t.Context(), 1, func(tx *sql.Tx) error {
		if d.dialect == sqlcursor.PostgreSQL {
			if _, err := tx.ExecContext(t.Context(), "SET LOCAL lock_timeout = '300ms'"); err != nil {
				return err
			}
		}
		return insert(t.Context(), tx, 1)
	})
	if _, unknown := errors.AsType[*client.UnknownError](err); !unknown {
		t.Errorf("got %v", err)
	}
	_, err = conn.ExecContext(t.Context(), "ROLLBACK")
	must(t, err)
	d.check(t, 0)
}

const endConnection = "SELECT pg_terminate_backend(pg_backend_pid())"

func lostConnection(t *testing.T, d *cursorDatabase) {
	d.tried(t, true, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), endConnection)
		return err
	})
}

func lostAtCommit(t *testing.T, d *cursorDatabase) {
	d.exec(t, "CREATE OR REPLACE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$")
	d.exec(t, "CREATE TABLE child (parent BIGINT)")
	d.exec(t, "CREATE CONSTRAINT TRIGGER lost AFTER INSERT ON child DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION lose()")
	d.tried(t, true, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "INSERT INTO child VALUES (1)")
		return err
	})
}

func endedByWork(t *testing.T, d *cursorDatabase) {
	d.tried(t, false, func(tx *sql.Tx) error { return tx.Rollback() })
}

func fencedCursor(t *testing.T, d *cursorDatabase) {
	old := d.open(t, d.session())
	d.open(t, d.session())
	err := old.Do(t.Context(), 1, func(tx *sql.Tx) error { return insert(t.Context(), tx, 1) })
	if _, unknown := errors.AsType[*client.UnknownError](err); unknown || !errors.Is(err, client.Fenced) {
		t.Errorf("the old consumer: %v", err)
	}
	o := d.session()
	o.Fence = 1
	if _, err := (sqlcursor.Table{DB: d.DB, Dialect: d.dialect}).Open(t.Context(), o); !errors.Is(err, client.Fenced) {
		t.Errorf("an open under a lower fence: %v", err)
	}
	d.check(t, 0)
}

// movedOnce opens a cursor twice under one fence, as after an open whose answer was lost.
func movedOnce(t *testing.T, d *cursorDatabase) {
	o := d.session()
	first, second := d.open(t, o), d.open(t, o)
	must(t, first.Do(t.Context(), 1, func(tx *sql.Tx) error { return insert(t.Context(), tx, 1) }))
	if err := second.Do(t.Context(), 2, func(tx *sql.Tx) error { return insert(t.Context(), tx, 2) }); !errors.Is(err, client.Fenced) {
		t.Errorf("a number that is not there any more was moved: %v", err)
	}
	d.check(t, 1)
}

func movedBack(t *testing.T, d *cursorDatabase) {
	c := d.open(t, d.session())
	must(t, c.Do(t.Context(), 1, func(tx *sql.Tx) error { return insert(t.Context(), tx, 1) }))
	for _, to := range []uint64{0, 1} {
		if err := c.Do(t.Context(), to, func(tx *sql.Tx) error { return insert(t.Context(), tx, 2) }); err == nil {
			t.Errorf("the number was moved from 1 to %d", to)
		}
	}
	d.check(t, 1)
}

func lostNumber(t *testing.T, d *cursorDatabase) {
	o, after, from := d.session(), uint64(6), uint64(3)
	o.Cursor = 5
	table := sqlcursor.Table{DB: d.DB, Dialect: d.dialect}
	_, err := table.Open(t.Context(), o)
	if lost, ok := errors.AsType[*client.LostCursorError](err); !ok || lost.Cursor != 5 {
		t.Errorf("without a decision: %v", err)
	}
	table.From = &after
	_, err = table.Open(t.Context(), o)
	if skip, ok := errors.AsType[*client.SkipError](err); !ok || *skip != (client.SkipError{From: 6, Cursor: 5}) {
		t.Errorf("after the last reported entry: %v", err)
	}
	table.From = &from
	for _, t1 := range []sqlcursor.Table{table, {DB: d.DB, Dialect: d.dialect}} { // the decision is kept
		c, err := t1.Open(t.Context(), o)
		if err != nil || c.Number() != 3 {
			t.Fatalf("%v, %v", c, err)
		}
	}
}

// takenOver has consumers that take the session over from one that works on. Their rows have no
// unique index. After the fence is raised, the number that was read is the last one of the old
// consumer: a retire returns the entries after it.
func takenOver(t *testing.T, d *cursorDatabase) {
	const takeovers = 60
	d.exec(t, "CREATE TABLE child (parent BIGINT NOT NULL)")
	c := d.open(t, d.session())
	for range takeovers {
		started := make(chan struct{})
		var old sync.WaitGroup
		old.Go(func() { d.workOn(t, c, sync.OnceFunc(func() { close(started) })) })
		<-started
		next := d.open(t, d.session())
		old.Wait()
		var rows, distinct, highest uint64
		must(t, d.QueryRowContext(t.Context(), "SELECT COUNT(*), COUNT(DISTINCT parent), COALESCE(MAX(parent), 0) FROM child").Scan(&rows, &distinct, &highest))
		if number := next.Number(); rows != number || distinct != number || highest != number {
			t.Fatalf("%d rows, %d different ones, up to %d; the number is %d", rows, distinct, highest, number)
		}
		c = next
	}
}

// workOn processes entries until another consumer has the session. It calls started after the
// first.
func (d *cursorDatabase) workOn(t *testing.T, c *sqlcursor.Cursor, started func()) {
	defer started()
	for n := c.Number() + 1; ; n++ {
		err := c.Do(t.Context(), n, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(t.Context(), fmt.Sprint("INSERT INTO child VALUES (", n, ")"))
			return err
		})
		if _, unknown := errors.AsType[*client.UnknownError](err); errors.Is(err, client.Fenced) || unknown {
			return
		}
		if err != nil {
			t.Error(err)
			return
		}
		started()
	}
}
