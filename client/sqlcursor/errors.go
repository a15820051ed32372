package sqlcursor

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/effectively-once/once/client"
)

// unknown returns an error after which the session is opened again.
func unknown(err error) error { return &client.UnknownError{Err: err} }

// temporary reports whether an error of a database says that it can't work at present, or that
// transactions are in each other's way.
func temporary(err error) bool { return retryable(err) || disconnected(err) }

// disconnected reports whether an error is one of the connection to a database. Any program may
// have such errors: it is for calls of the database only.
func disconnected(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.Canceled) ||
		some(err, func(err error) bool { return err.Error() == "invalid connection" }) // MySQL
}

// retryable reports whether a database has answered that it can't work at present, or that
// transactions are in each other's way. Drivers are recognised by the methods and texts of their
// errors, so that this package needs none of them.
func retryable(err error) bool {
	return some(err, func(err error) bool {
		if state, ok := stateOf(err); ok {
			return temporaryState(state)
		}
		if code, ok := sqliteCode(err); ok {
			// busy, locked, no memory, input or output, full
			return slices.Contains([]int{5, 6, 7, 10, 13}, code)
		}
		text := err.Error()
		switch number, ok := mysqlNumber(text); {
		case ok:
			// changed since it was read, too many connections, shutdown, aborted, lock wait
			// timeout, deadlock, killed, idle
			return slices.Contains([]int{1020, 1040, 1053, 1152, 1205, 1213, 1927, 4031}, number)
		default: // SQLite
			return strings.HasPrefix(text, "database is locked") || strings.HasPrefix(text, "database table is locked")
		}
	})
}

// refused reports whether a database has answered a commit with an error that says that it has
// rolled the transaction back. MySQL checks nothing when it commits, so none of its errors says so.
func refused(err error) bool {
	return some(err, func(err error) bool {
		if state, ok := stateOf(err); ok {
			return !temporaryState(state)
		}
		code, ok := sqliteCode(err)
		return ok && code == 19 // a constraint
	})
}

// some reports whether f accepts an error or one that it wraps.
func some(err error, f func(err error) bool) bool {
	if err == nil || f(err) {
		return err != nil
	}
	switch x := any(err).(type) {
	case interface{ Unwrap() error }:
		return some(x.Unwrap(), f)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(x.Unwrap(), func(err error) bool { return some(err, f) })
	}
	return false
}

// stateOf returns the state of SQL of an error of a driver for PostgreSQL.
func stateOf(err error) (string, bool) {
	x, ok := any(err).(interface{ SQLState() string })
	if !ok {
		return "", false
	}
	return x.SQLState(), true
}

// sqliteCode returns the primary code of an error of modernc.org/sqlite.
func sqliteCode(err error) (int, bool) {
	x, ok := any(err).(interface{ Code() int })
	if !ok || !strings.Contains(fmt.Sprintf("%T", err), "sqlite") {
		return 0, false
	}
	return x.Code() & 0xff, true
}

// mysqlNumber returns the number in the text of an error of MySQL: Error 1213 (40001): Deadlock …
func mysqlNumber(text string) (int, bool) {
	rest, ok := strings.CutPrefix(text, "Error ")
	if !ok {
		return 0, false
	}
	digits := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if digits < 0 {
		digits = len(rest)
	}
	number, err := strconv.Atoi(rest[:digits])
	return number, err == nil
}

// temporaryState reports whether a state of SQL is about connections, conflicts of transactions, or
// the resources and restarts of the server. A query that was cancelled, for example by its timeout,
// is not: that may be the fault of the entry.
func temporaryState(state string) bool {
	switch {
	case len(state) != 5 || state == "57014":
		return false
	// locks, timeouts of idle transactions and of long ones
	case state == "55P03" || state == "25P03" || state == "25P04":
		return true
	}
	return slices.Contains([]string{"08", "40", "53", "57", "58"}, state[:2])
}
