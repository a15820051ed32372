package sqlcursor

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
)

// A stateError is an error of PostgreSQL, as drivers have it.
type stateError string

func (e stateError) Error() string    { return "ERROR: text (SQLSTATE " + string(e) + ")" }
func (e stateError) SQLState() string { return string(e) }

// A sqliteError is an error of SQLite; drivers have it in a package of this name.
type sqliteError int

func (e sqliteError) Error() string { return fmt.Sprint("text (", int(e), ")") }
func (e sqliteError) Code() int     { return int(e) }

// A statusError is an error of another system.
type statusError int

func (e statusError) Error() string { return fmt.Sprint("status ", int(e)) }
func (e statusError) Code() int     { return int(e) }

func TestErrorsOfDatabasesAreRecognised(t *testing.T) {
	timeout := &net.OpError{Op: "read", Err: errors.New("i/o timeout")}
	for _, c := range []struct {
		err  error
		want string // retryable, disconnected, refused
	}{
		{stateError("40001"), "retryable"},
		{stateError("40P01"), "retryable"},
		{stateError("55P03"), "retryable"},
		{stateError("57P01"), "retryable"},
		{stateError("08006"), "retryable"},
		{stateError("53100"), "retryable"},
		{stateError("25P03"), "retryable"},
		{stateError("23505"), "refused"},
		{stateError("25P02"), "refused"},
		{stateError("57014"), "refused"},
		{stateError("22P02"), "refused"},
		{sqliteError(5), "retryable"},
		{sqliteError(517), "retryable"},
		{sqliteError(6), "retryable"},
		{sqliteError(13), "retryable"},
		{sqliteError(787), "refused"},
		{sqliteError(2067), "refused"},
		{sqliteError(1), ""},
		{errors.New("database is locked"), "retryable"},
		{errors.New("database table is locked: rows"), "retryable"},
		{errors.New("the user says that the database is locked"), ""},
		{errors.New("Error 1213 (40001): Deadlock found when trying to get lock"), "retryable"},
		{errors.New("Error 1205: Lock wait timeout exceeded"), "retryable"},
		{errors.New("Error 1062 (23000): Duplicate entry"), ""},
		{errors.New("Error 12130: x"), ""},
		{errors.New("Error"), ""},
		{errors.New("invalid connection"), "disconnected"},
		{driver.ErrBadConn, "disconnected"},
		{io.EOF, "disconnected"},
		{io.ErrUnexpectedEOF, "disconnected"},
		{timeout, "disconnected"},
		{context.Canceled, "disconnected"},
		{context.DeadlineExceeded, "disconnected"},
		{statusError(517), ""},
		{errors.New("no stock"), ""},
	} {
		for _, err := range []error{c.err, fmt.Errorf("insert row: %w", c.err), fmt.Errorf("a: %w", errors.Join(errors.New("b"), c.err))} {
			var got []string
			for name, f := range map[string]func(error) bool{"retryable": retryable, "disconnected": disconnected, "refused": refused} {
				if f(err) {
					got = append(got, name)
				}
			}
			if strings.Join(got, " ") != c.want || temporary(err) != (c.want == "retryable" || c.want == "disconnected") {
				t.Errorf("%v: %v, want %s", err, got, c.want)
			}
		}
	}
}

func TestNamesOfTablesAreChecked(t *testing.T) {
	for name, want := range map[string]bool{
		"once_cursor": true, "app.once_cursor": true, "_a1.B2": true, "": false, ".": false, "a.": false, ".a": false, "a.b.c": false, "1a": false, "a-b": false, "a;b": false, "a b": false, "é": false,
	} {
		if err := PostgreSQL.validate(name); (err == nil) != want {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := Dialect("oracle").validate("a"); err == nil {
		t.Error("a dialect that is none was accepted")
	}
}
