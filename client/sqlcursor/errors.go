package sqlcursor

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/effectively-once/once/client"
)

// unknown returns an error after which the session is opened again.
func unknown(err error) error { return &client.UnknownError{Err: err} }

// temporary reports whether an error of a database says that it can't work at present, or that
// transactions are in each other's way. Drivers are recognised by the methods and texts of their
// errors, so that this package needs none of them.
func temporary(err error) bool {
	var network net.Error
	var state interface{ SQLState() string } // PostgreSQL
	var code interface{ Code() int }         // SQLite, by modernc.org/sqlite
	switch {
	case errors.As(err, &network), errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone), errors.Is(err, sql.ErrTxDone),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.Canceled):
		return true
	case errors.As(err, &state):
		return temporaryState(state.SQLState())
	case errors.As(err, &code) && (code.Code()&0xff == 5 || code.Code()&0xff == 6): // busy, locked
		return true
	}
	text := err.Error()
	if m := regexp.MustCompile(`^Error (\d+)\b`).FindStringSubmatch(text); m != nil {
		// too many connections, shutdown, aborted, lock wait timeout, deadlock, killed
		return slices.Contains([]string{"1040", "1053", "1152", "1205", "1213", "1927", "4031"}, m[1])
	}
	return strings.Contains(text, "invalid connection") || strings.Contains(text, "database is locked") || strings.Contains(text, "database table is locked")
}

// temporaryState reports whether a state of SQL is about connections, conflicts of transactions, or
// the resources and restarts of the server. A query that was cancelled, for example by its timeout,
// is not: that may be the fault of the entry.
func temporaryState(state string) bool {
	switch {
	case len(state) != 5 || state == "57014":
		return false
	case state == "55P03" || state == "25P03" || state == "25P04": // locks, timeouts of idle transactions and of long ones
		return true
	}
	return slices.Contains([]string{"08", "40", "53", "57", "58"}, state[:2])
}
