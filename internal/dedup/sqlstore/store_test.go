package sqlstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/dedup/sqlstore"
	"github.com/effectively-once/once/internal/record"
)

// A refusing is a database that refuses its first statements, and then changes a row by each.
type refusing struct {
	driver.Conn
	errs []error
}

func (r *refusing) Connect(context.Context) (driver.Conn, error) { return r, nil }
func (*refusing) Driver() driver.Driver                          { return nil }
func (*refusing) Close() error                                   { return nil }

func (r *refusing) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	if len(r.errs) == 0 {
		return driver.RowsAffected(1), nil
	}
	err := r.errs[0]
	r.errs = r.errs[1:]
	return nil, err
}

// A stateError is an error of PostgreSQL, as drivers have it.
type stateError string

func (e stateError) Error() string    { return "ERROR: text (SQLSTATE " + string(e) + ")" }
func (e stateError) SQLState() string { return string(e) }

func TestASwapThatTheDatabaseRolledBackForAnotherIsMadeAgain(t *testing.T) {
	deadlock := errors.New("Error 1213 (40001): Deadlock found when trying to get lock")
	var always []error
	for range 20 {
		always = append(always, deadlock)
	}
	for _, c := range []struct {
		name string
		errs []error
		want error
	}{
		{"deadlock in MySQL", []error{deadlock, deadlock}, nil},
		{"row changed in MariaDB", []error{errors.New("Error 1020 (HY000): Record has changed since last read")}, nil},
		{"deadlock in PostgreSQL", []error{stateError("40P01")}, nil},
		{"not serializable", []error{stateError("40001")}, nil},
		{"always a deadlock", always, deadlock},
		{"another error", []error{stateError("53100")}, stateError("53100")},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := sql.OpenDB(&refusing{errs: c.errs})
			defer db.Close()
			s, err := sqlstore.New(db, sqlstore.MySQL, "once_token", nil)
			if err != nil {
				t.Fatal(err)
			}
			next := record.Token{Key: record.NewTokenKey("a", "b", "c"), State: record.Issued, Owner: "us", Expires: time.Unix(9e9, 0)}
			if _, err := s.SwapToken(t.Context(), record.Token{Key: next.Key}, next); !errors.Is(err, c.want) {
				t.Errorf("got error %v, want %v", err, c.want)
			}
		})
	}
}
