package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/effectively-once/once/client/sqlcursor"
)

// A pageCursor runs the statements of docs/sessions.md.
type pageCursor struct {
	*sql.DB
	dialect                     sqlcursor.Dialect
	create, raise, mysql, moves string
}

func TestTheStatementsOfThePageOfSessionsKeepACursor(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/sessions.md")
	must(t, err)
	var blocks []string
	for _, found := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllSubmatch(text, -1) {
		blocks = append(blocks, string(found[1]))
	}
	if len(blocks) != 4 {
		t.Fatalf("the page has %d blocks of SQL", len(blocks))
	}
	for d, source := range map[sqlcursor.Dialect]func() string{
		sqlcursor.SQLite:     func() string { return sqliteFile(filepath.Join(t.TempDir(), "a.db")) },
		sqlcursor.PostgreSQL: func() string { return database(t, "postgres.sh", "POSTGRES_URL") },
		sqlcursor.MySQL:      func() string { return database(t, "mariadb.sh", "MARIADB_DSN") },
	} {
		t.Run(string(d), func(t *testing.T) {
			create := blocks[0]
			if d == sqlcursor.MySQL {
				create = strings.ReplaceAll(create, "TEXT  ", "VARBINARY(400)")
			}
			p := &pageCursor{DB: openCursors(t, driverOf(d), source()), dialect: d, create: create, raise: blocks[1], mysql: blocks[2], moves: blocks[3]}
			_, err := p.ExecContext(t.Context(), p.create)
			must(t, err)
			p.test(t)
		})
	}
}

func (p *pageCursor) test(t *testing.T) {
	ctx := t.Context()
	for _, step := range []struct {
		do, want string
	}{
		{"raise 8", "8 0"}, // the first row
		{"move 8 0 5", "1"},
		{"move 8 0 5", "0"}, // the number is another one
		{"raise 8", "8 5"},
		{"raise 9", "9 5"},
		{"move 8 5 7", "0"}, // fenced
		{"raise 8", "9 5"},  // not to be taken for a missing row
		{"move 9 5 7", "1"},
		{"raise 10", "10 7"},
	} {
		var a, b, c uint64
		what, rest, _ := strings.Cut(step.do, " ")
		_, _ = fmt.Sscan(rest, &a, &b, &c) // some steps have one number
		run := func() (string, error) { return p.move(ctx, a, b, c) }
		if what == "raise" {
			run = func() (string, error) { return p.open(ctx, a) }
		}
		got, err := run()
		if err != nil || got != step.want {
			t.Fatalf("%s: %s, %v; want %s", step.do, got, err, step.want)
		}
	}
}

// with writes a statement with values in place of its parameters.
func with(statement string, values map[string]any) string {
	for name, value := range values {
		statement = regexp.MustCompile(":"+name+`\b`).ReplaceAllString(statement, fmt.Sprint(value))
	}
	return statement
}

func row(fence uint64) map[string]any {
	return map[string]any{"stream": "'work'", "session": "'a'", "life": 7, "fence": fence}
}

// open raises the fence, and returns fence and number.
func (p *pageCursor) open(ctx context.Context, fence uint64) (string, error) {
	var f, n uint64
	if p.dialect != sqlcursor.MySQL {
		err := p.QueryRowContext(ctx, with(p.raise, row(fence))).Scan(&f, &n)
		return fmt.Sprint(f, n), err
	}
	tx, err := p.BeginTx(ctx, nil)
	if err != nil {
		return "", err
	}
	insert, query, _ := strings.Cut(with(p.mysql, row(fence)), ";")
	_, err1 := tx.ExecContext(ctx, insert)
	err2 := tx.QueryRowContext(ctx, query).Scan(&f, &n)
	return fmt.Sprint(f, n), errors.Join(err1, err2, tx.Commit())
}

// move moves the number, and returns how many rows have changed.
func (p *pageCursor) move(ctx context.Context, fence, from, to uint64) (string, error) {
	values := row(fence)
	values["from"], values["to"] = from, to
	result, err := p.ExecContext(ctx, with(p.moves, values))
	if err != nil {
		return "", err
	}
	n, err := result.RowsAffected()
	return fmt.Sprint(n), err
}
