package sqlstore

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Dialect is the kind of a database.
type Dialect string

// The dialects. MySQL is also for MariaDB.
const (
	PostgreSQL Dialect = "postgresql"
	MySQL      Dialect = "mysql"
	SQLite     Dialect = "sqlite"
)

// Schema returns the statements that create the table and its index if they do not exist.
func (d Dialect) Schema(table string) []string {
	key, owner, blob, small, more := "BYTEA", "BYTEA", "BYTEA", "SMALLINT", ""
	switch d {
	case MySQL:
		key, owner, blob = "BINARY(32)", "VARBINARY(255)", "LONGBLOB"
		more = fmt.Sprintf(",\n\tINDEX %s (expires)", d.index(table))
	case SQLite:
		key, owner, blob = "BLOB", "BLOB", "BLOB"
	case PostgreSQL:
	}
	create := fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %[1]s (
	id      %[2]s NOT NULL PRIMARY KEY,
	format  %[5]s NOT NULL,
	state   %[5]s NOT NULL,
	owner   %[3]s NOT NULL,
	epoch   BIGINT NOT NULL,
	lease   BIGINT NOT NULL,
	expires BIGINT NOT NULL,
	writes  BIGINT NOT NULL,
	content %[4]s NOT NULL%[6]s
)`, table, key, owner, blob, small, more)
	if d == MySQL {
		return []string{create + " ENGINE=InnoDB"}
	}
	on := table
	name := d.index(table)
	if schema, plain, two := strings.Cut(table, "."); two && d == SQLite {
		on, name = plain, schema+"."+name // SQLite takes the schema from the name of the index
	}
	return []string{create, fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON %s (expires)", name, on)}
}

// index returns the name of the index, without a schema.
func (Dialect) index(table string) string {
	return table[strings.LastIndexByte(table, '.')+1:] + "_expires"
}

// Bind writes a statement with the parameters of the dialect in place of question marks.
func (d Dialect) Bind(statement string) string {
	if d != PostgreSQL {
		return statement
	}
	for n := 1; strings.Contains(statement, "?"); n++ {
		statement = strings.Replace(statement, "?", "$"+strconv.Itoa(n), 1)
	}
	return statement
}

// tableName is a name of letters, digits and underscores, with an optional schema.
var tableName = regexp.MustCompile(`^([A-Za-z_]\w*\.)?[A-Za-z_]\w*$`)

// Validate returns an error unless the dialect is one of the dialects, and the table a name that
// needs no quotes.
func (d Dialect) Validate(table string) error {
	switch d {
	case PostgreSQL, MySQL, SQLite:
	default:
		return fmt.Errorf("dialect %q is neither %q nor %q nor %q", d, PostgreSQL, MySQL, SQLite)
	}
	if !tableName.MatchString(table) {
		return fmt.Errorf("table %q must be a name of letters, digits and underscores, with an optional schema", table)
	}
	return nil
}
