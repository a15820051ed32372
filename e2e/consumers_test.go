package e2e

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/client/sqlcursor"
	"github.com/effectively-once/once/internal/testkit/consumertest"
	"github.com/effectively-once/once/internal/testkit/freeport"
)

func TestConsumersWithStateSurviveTheFaultsOfTheTable(t *testing.T) {
	t.Parallel()
	runFaults(t, func(t *testing.T) consumertest.Place {
		t.Helper()
		return killed(consumertest.Engine(t), "state", "")
	})
}

func TestConsumersWithFilesSurviveTheFaultsOfTheTable(t *testing.T) {
	t.Parallel()
	runFaults(t, func(t *testing.T) consumertest.Place {
		t.Helper()
		dir := t.TempDir()
		return killed(consumertest.FileIn(dir), "file", dir)
	})
}

func TestConsumersWithCallsSurviveTheFaultsOfTheTable(t *testing.T) {
	t.Parallel()
	runFaults(t, func(t *testing.T) consumertest.Place {
		t.Helper()
		place, url := consumertest.CallsTo(t)
		return killed(place, "calls", url)
	})
}

func TestConsumersWithSQLiteSurviveTheFaultsOfTheTable(t *testing.T) {
	t.Parallel()
	runFaults(t, func(t *testing.T) consumertest.Place {
		t.Helper()
		return sqlPlace(t, sqlcursor.SQLite, sqliteFile(filepath.Join(t.TempDir(), "a.db")))
	})
}

func sqliteFile(path string) string {
	return "file:" + path + "?_pragma=busy_timeout(30000)&_pragma=journal_mode(WAL)"
}

func TestConsumersWithPostgreSQLSurviveTheFaultsOfTheTable(t *testing.T) {
	t.Parallel()
	source := database(t, "postgres.sh", "POSTGRES_URL")
	runFaults(t, func(t *testing.T) consumertest.Place {
		t.Helper()
		return sqlPlace(t, sqlcursor.PostgreSQL, source)
	})
}

func TestConsumersWithMariaDBSurviveTheFaultsOfTheTable(t *testing.T) {
	t.Parallel()
	source := database(t, "mariadb.sh", "MARIADB_DSN")
	runFaults(t, func(t *testing.T) consumertest.Place {
		t.Helper()
		return sqlPlace(t, sqlcursor.MySQL, source)
	})
}

// killed returns a place whose consumers crash by the end of their processes.
func killed(p consumertest.Place, place, source string) consumertest.Place {
	p.Process = func(t *testing.T, c consumertest.Child) {
		t.Helper()
		text, err := json.Marshal(role{Kind: "consume", URL: c.URL, Consumer: c, Place: place, Source: source})
		must(t, err)
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), roleVariable+"="+string(text))
		out, err := cmd.CombinedOutput()
		status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
			t.Fatalf("the consumer has not killed itself: %v\n%s", err, out)
		}
	}
	return p
}

// consume runs a consumer that kills itself.
func (r *role) consume(ctx context.Context) error {
	switch r.Place {
	case "state":
		return r.Consumer.Run(ctx, consumertest.ConsumeState)
	case "file":
		return r.Consumer.Run(ctx, consumertest.ConsumeIn(r.Source))
	case "calls":
		return r.Consumer.Run(ctx, consumertest.ConsumeCalls(r.Source))
	}
	d := sqlcursor.Dialect(r.Place)
	db, err := sql.Open(driverOf(d), r.Source)
	if err != nil {
		return err
	}
	return r.Consumer.Run(ctx, sqlConsume(db, d))
}

func driverOf(d sqlcursor.Dialect) string {
	return map[sqlcursor.Dialect]string{sqlcursor.SQLite: "sqlite", sqlcursor.PostgreSQL: "pgx", sqlcursor.MySQL: "mysql"}[d]
}

// database starts a database that ends with the test, and returns how to connect to it.
func database(t *testing.T, script, variable string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(freeport.Address(t))
	must(t, err)
	dir, err := os.MkdirTemp("", "once-db") //nolint:usetesting // its path would be too long for a socket
	must(t, err, os.Chmod(dir, 0o755))      // the database runs as another user
	run := func(command string) string {
		cmd := exec.Command(filepath.Join("..", "localstack", script), command)
		cmd.Env = append(os.Environ(), "PORT="+port, "TMPDIR="+dir)
		log, err := os.CreateTemp(dir, "log")
		must(t, err)
		defer log.Close()
		cmd.Stdout, cmd.Stderr = log, log // a database that runs on would keep a pipe open
		err = cmd.Run()
		out, _ := os.ReadFile(log.Name())
		if err != nil {
			t.Errorf("%s %s: %v\n%s", script, command, err, out)
		}
		return string(out)
	}
	t.Cleanup(func() {
		run("down")
		_ = os.RemoveAll(dir)
	})
	run("up")
	_, rest, _ := strings.Cut(run("env"), variable+"=")
	source, _, _ := strings.Cut(rest, "\n")
	return strings.Trim(source, "'")
}

// runFaults runs the table of faults against one server, each row in a stream of its own.
func runFaults(t *testing.T, place func(t *testing.T) consumertest.Place) {
	t.Helper()
	pools := "streams:\n"
	for n := range consumertest.Rows {
		pools += fmt.Sprintf("  work%d: {log: {retain: 1h}, pool: {partitions: 1}}\n", n)
	}
	s := newServer(t, onceBinary, pools)
	must(t, s.start())
	n := 0
	consumertest.Run(t, func(t *testing.T) consumertest.Server {
		t.Helper()
		stream := fmt.Sprint("work", n)
		n++
		c, err := client.New(s.url(), client.Options{})
		must(t, err)
		for _, id := range consumertest.IDs() {
			_, err := c.Send(t.Context(), client.Message{Stream: stream, Key: id, Body: []byte(id)})
			must(t, err)
		}
		return consumertest.Server{
			URL: s.url(), Stream: stream, Transport: &http.Transport{}, Restart: func() { must(t, s.kill(), s.start()) },
			Letters: func() []string { return skipped(t, s, stream) },
		}
	}, place)
}

// skipped returns the lines of the dead letters of a stream that were skipped.
func skipped(t *testing.T, s *server, stream string) (lines []string) {
	t.Helper()
	path, err := onceBinary()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), path, "show", "--dead-letters")
	cmd.Dir = s.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[1] == "skipped" && fields[2] == stream {
			lines = append(lines, line)
		}
	}
	return lines
}

// sqlPlace returns a place in an empty database. Its table of work has no unique index.
func sqlPlace(t *testing.T, d sqlcursor.Dialect, source string) consumertest.Place {
	t.Helper()
	db, err := sql.Open(driverOf(d), source)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	setUp := func(t *testing.T) {
		t.Helper()
		for _, statement := range []string{
			"DROP TABLE IF EXISTS once_cursor", "DROP TABLE IF EXISTS work_done", d.CreateTable(sqlcursor.DefaultTable),
			"CREATE TABLE work_done (position BIGINT NOT NULL, id VARCHAR(100) NOT NULL)",
		} {
			_, err := db.ExecContext(t.Context(), statement)
			must(t, err)
		}
	}
	setUp(t)
	return killed(consumertest.Place{
		Consume: sqlConsume(db, d),
		Rows: func(t *testing.T, _ consumertest.State) (ids []string) {
			t.Helper()
			rows, err := db.QueryContext(t.Context(), "SELECT id FROM work_done ORDER BY position")
			must(t, err)
			defer rows.Close()
			for rows.Next() {
				var id string
				must(t, rows.Scan(&id))
				ids = append(ids, id)
			}
			must(t, rows.Err())
			return ids
		},
		Raise: func(ctx context.Context, o client.Opened) (uint64, error) {
			cursor, err := sqlcursor.Table{DB: db, Dialect: d}.Open(ctx, o)
			if err != nil {
				return 0, err
			}
			return cursor.Number(), nil
		},
		Lose: setUp,
	}, string(d), source)
}

// sqlConsume inserts a row for each entry.
func sqlConsume(db *sql.DB, d sqlcursor.Dialect) consumertest.Consume {
	insert := "INSERT INTO work_done (position, id) SELECT COUNT(*), ? FROM work_done"
	if d == sqlcursor.PostgreSQL {
		insert = "INSERT INTO work_done (position, id) SELECT COUNT(*), $1 FROM work_done"
	}
	return func(ctx context.Context, c *client.Client, o client.SessionOptions, from *uint64, w consumertest.Work) error {
		table := sqlcursor.Table{DB: db, Dialect: d, From: from}
		return table.Consume(ctx, c, o, func(ctx context.Context, tx *sql.Tx, entries []client.Entry) error {
			return w.Around(entries, func(e *client.Entry) error {
				_, err := tx.ExecContext(ctx, insert, e.ID)
				return err
			})
		})
	}
}
