package oncesql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"

	"github.com/effectively-once/once/oncesql"
)

// nowhere is a database that can't be reached.
type nowhere struct{}

var errNowhere = errors.New("no route to the database")

func (nowhere) Connect(context.Context) (driver.Conn, error) { return nil, errNowhere }
func (nowhere) Driver() driver.Driver                        { return nil }

func TestAnInvalidTableIsAnErrorOfEveryMethod(t *testing.T) {
	t.Parallel()
	db := sql.OpenDB(nowhere{})
	for name, c := range map[string]struct {
		table oncesql.Table
		want  string
	}{
		"no database": {oncesql.Table{Dialect: oncesql.PostgreSQL}, "database is nil"},
		"no dialect":  {oncesql.Table{DB: db}, `dialect "" is neither`},
		"statements":  {oncesql.Table{DB: db, Dialect: oncesql.SQLite, Name: "t; DROP TABLE t"}, "must be a name of letters"},
	} {
		_, open := c.table.Tokens()
		_, sweep := c.table.Sweep(t.Context())
		for method, err := range map[string]error{"Tokens": open, "Create": c.table.Create(t.Context()), "Sweep": sweep} {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %s returned %v, want an error with %q", name, method, err, c.want)
			}
		}
	}
}

func TestErrorsOfTheDatabaseAreReturned(t *testing.T) {
	t.Parallel()
	table := oncesql.Table{DB: sql.OpenDB(nowhere{}), Dialect: oncesql.MySQL, Name: "shop.tokens"}
	if _, err := table.Tokens(); err != nil {
		t.Errorf("Tokens returned %v, want no error: it makes no call", err)
	}
	if _, err := table.Sweep(t.Context()); !errors.Is(err, errNowhere) {
		t.Errorf("Sweep returned %v, want %v", err, errNowhere)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := table.Create(ctx); err == nil {
		t.Error("Create returned no error, want that of the context")
	}
	table.SweepEvery(ctx, 0, nil) // returns, because the context has ended
}

func TestTheSchemaNamesTheTableAndItsIndex(t *testing.T) {
	t.Parallel()
	if got, want := oncesql.SQLite.Schema(""), oncesql.SQLite.Schema(oncesql.DefaultTable); got != want {
		t.Errorf("without a name the schema is\n%s\nwant that of the default\n%s", got, want)
	}
	for dialect, want := range map[oncesql.Dialect][]string{
		oncesql.PostgreSQL: {"EXISTS shop.tokens (", "BYTEA", "INDEX IF NOT EXISTS tokens_expires ON shop.tokens (expires);\n"},
		oncesql.MySQL:      {"EXISTS shop.tokens (", "BINARY(32)", "INDEX tokens_expires (expires)", "ENGINE=InnoDB;\n"},
		oncesql.SQLite:     {"EXISTS shop.tokens (", "BLOB", "INDEX IF NOT EXISTS shop.tokens_expires ON tokens (expires);\n"},
	} {
		for _, text := range want {
			if got := dialect.Schema("shop.tokens"); !strings.Contains(got, text) {
				t.Errorf("%s: the schema has no %q:\n%s", dialect, text, got)
			}
		}
	}
}
