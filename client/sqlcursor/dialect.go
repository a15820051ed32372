package sqlcursor

import (
	"fmt"
	"strings"

	"github.com/effectively-once/once/internal/dedup/sqlstore"
)

// Dialect is the kind of a database.
type Dialect string

// The dialects. MySQL is also for MariaDB.
const (
	PostgreSQL Dialect = "postgresql"
	MySQL      Dialect = "mysql"
	SQLite     Dialect = "sqlite"
)

// DefaultTable is the name of the table.
const DefaultTable = "once_cursor"

// CreateTable returns the statement that creates the table if it does not exist, under the name
// [DefaultTable] or another one.
func (d Dialect) CreateTable(name string) string {
	text, bigint, options := "TEXT", "BIGINT", ""
	if d == MySQL {
		// Texts would be equal to texts in another case, and to those with spaces after them.
		text, options = "VARBINARY(400)", " ENGINE=InnoDB"
	}
	return fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (
	stream  %[2]s NOT NULL,
	session %[2]s NOT NULL,
	life    %[3]s NOT NULL,
	fence   %[3]s NOT NULL,
	number  %[3]s NOT NULL,
	PRIMARY KEY (stream, session, life)
)%[4]s`, name, text, bigint, options)
}

// bind writes a statement with the parameters of the dialect in place of question marks.
func (d Dialect) bind(statement string) string { return sqlstore.Dialect(d).Bind(statement) }

// raise returns the statement that raises the fence of a row, which it inserts if there is none.
// The parameters are stream, session, life, fence and the number of a new row. In SQLite and
// PostgreSQL it returns fence and number.
func (d Dialect) raise(table string) string {
	insert := "INSERT INTO " + table + " (stream, session, life, fence, number) VALUES (?, ?, ?, ?, ?)"
	if d == MySQL {
		return insert + ` ON DUPLICATE KEY UPDATE
	number = CASE WHEN number = 0 AND fence <= VALUES(fence) THEN VALUES(number) ELSE number END,
	fence = GREATEST(fence, VALUES(fence))`
	}
	return d.bind(insert) + strings.ReplaceAll(` ON CONFLICT (stream, session, life) DO UPDATE SET
	number = CASE WHEN old.number = 0 AND old.fence <= excluded.fence THEN excluded.number ELSE old.number END,
	fence = CASE WHEN old.fence < excluded.fence THEN excluded.fence ELSE old.fence END
	RETURNING fence, number`, "old.", unqualified(table)+".")
}

// unqualified returns the name of a table without its schema.
func unqualified(table string) string {
	return table[strings.LastIndexByte(table, '.')+1:]
}

const whereRow = " WHERE stream = ? AND session = ? AND life = ?"

// selectRow returns the statement that reads and locks a row, for MySQL.
func (d Dialect) selectRow(table string) string {
	return "SELECT fence, number FROM " + table + whereRow + " FOR UPDATE"
}

// move returns the statement that moves the number. The parameters are the new number, stream,
// session, life, fence and the number before.
func (d Dialect) move(table string) string {
	return d.bind("UPDATE " + table + " SET number = ?" + whereRow + " AND fence = ? AND number = ?")
}

func (d Dialect) validate(table string) error { return sqlstore.Dialect(d).Validate(table) }
