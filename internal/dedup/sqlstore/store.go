package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/backoff"
	"github.com/effectively-once/once/internal/record"
)

// A Store is a store of tokens. It keeps nothing in memory between calls.
type Store struct {
	db      *sql.DB
	dialect Dialect
	table   string
	now     func() time.Time
}

// New returns the store of a table. It makes no call. A nil now is time.Now.
func New(db *sql.DB, dialect Dialect, table string, now func() time.Time) (*Store, error) {
	if db == nil {
		return nil, errors.New("the database is nil")
	}
	if err := dialect.Validate(table); err != nil {
		return nil, err
	}
	if now == nil {
		now = time.Now
	}
	return &Store{db, dialect, table, now}, nil
}

// creations is how often Create tries: in PostgreSQL, one of several replicas that create a table
// at the same time gets an error.
const creations = 5

// Create creates the table and its index if they do not exist.
func (s *Store) Create(ctx context.Context) error {
	for n := 1; ; n++ {
		err := s.create(ctx)
		if err == nil {
			return nil
		}
		if n == creations || backoff.Sleep(ctx, backoff.Full(n, 50*time.Millisecond, time.Second)) != nil {
			return fmt.Errorf("create table %s: %w", s.table, err)
		}
	}
}

func (s *Store) create(ctx context.Context) error {
	for _, statement := range s.dialect.Schema(s.table) {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// Load reads tokens, as [record.Store] describes it. There are no groups.
func (s *Store) Load(ctx context.Context, groups []record.GroupKey, tokens []record.TokenKey) ([]record.Group, []record.Token, error) {
	if len(groups) > 0 {
		return nil, nil, errors.New("load: the table has tokens only")
	}
	out := make([]record.Token, len(tokens))
	for i, key := range tokens {
		t, err := s.read(ctx, key)
		if err != nil {
			return nil, nil, fmt.Errorf("load token %s: %w", key, err)
		}
		out[i] = t
	}
	return nil, out, nil
}

// read reads one token. A missing or expired row is an absent token.
func (s *Store) read(ctx context.Context, key record.TokenKey) (record.Token, error) {
	var r row
	query := s.dialect.Bind("SELECT format, state, owner, epoch, lease, expires, content FROM " + s.table + " WHERE id = ?")
	err := s.db.QueryRowContext(ctx, query, key[:]).Scan(&r.format, &r.state, &r.owner, &r.epoch, &r.lease, &r.expires, &r.content)
	if errors.Is(err, sql.ErrNoRows) {
		return record.Token{Key: key}, nil
	}
	if err != nil {
		return record.Token{}, err
	}
	return r.token(key, s.now())
}

// swaps is how often SwapToken repeats a write whose condition held again when the row was read, or
// that the database rolled back in favour of another one.
const swaps = 10

// errMoving says that other writers changed the row between each write and the read after it.
var errMoving = errors.New("the row was changed again and again")

// SwapToken implements the store of package lease, see [record.Store]. A next token that is Absent
// deletes the row.
func (s *Store) SwapToken(ctx context.Context, old, next record.Token) (record.Token, error) {
	t, err := s.swap(ctx, &old, &next)
	if err != nil {
		return t, fmt.Errorf("swap token %s: %w", next.Key, err)
	}
	return t, nil
}

func (s *Store) swap(ctx context.Context, old, next *record.Token) (record.Token, error) {
	busy := errMoving
	for range swaps {
		applied, err := s.write(ctx, old, next)
		switch {
		case err != nil && inTheWay(err):
			busy = err
			continue
		case err != nil:
			return record.Token{}, err
		case applied:
			return *next, nil
		}
		stored, err := s.read(ctx, next.Key)
		switch {
		case err != nil:
			return record.Token{}, err
		case same(&stored, next):
			return *next, nil
		case !same(&stored, old):
			return stored, record.ErrConflict
		}
		// The row was deleted, has expired or was replaced since the write.
	}
	return record.Token{}, busy
}

// inTheWay reports whether a database has rolled a statement back because it and another one were in
// each other's way. In MySQL writers of different rows can be.
func inTheWay(err error) bool {
	if e, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return e.SQLState() == "40001" || e.SQLState() == "40P01" // not serializable, deadlock
	}
	text := err.Error()
	return strings.HasPrefix(text, "Error 1213 ") || strings.HasPrefix(text, "Error 1020 ") // MySQL: deadlock, row changed
}

// write makes the conditional write, and reports whether it changed the row.
func (s *Store) write(ctx context.Context, old, next *record.Token) (bool, error) {
	if len(next.Owner) > maxOwner {
		return false, fmt.Errorf("an owner has at most %d bytes", maxOwner)
	}
	now := s.now().UnixMilli()
	switch {
	case old.State == record.Absent && next.State == record.Absent:
		return false, nil
	case old.State == record.Absent:
		return s.insert(ctx, rowOf(next), now)
	case next.State == record.Absent:
		return s.exec(ctx, "DELETE FROM "+s.table+whereOld, wasOld(old, now)...)
	}
	r := rowOf(next)
	return s.exec(ctx, s.update()+whereOld, append(r.changes(), wasOld(old, now)...)...)
}

// insert writes a row if there is none, or one that has expired.
func (s *Store) insert(ctx context.Context, r row, now int64) (bool, error) {
	const values = " (format, state, owner, epoch, lease, expires, content, id, writes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1)"
	columns := append(r.changes(), r.id)
	if s.dialect != MySQL {
		return s.exec(ctx, "INSERT INTO "+s.table+" AS old"+values+` ON CONFLICT (id) DO UPDATE SET
	format = excluded.format, state = excluded.state, owner = excluded.owner, epoch = excluded.epoch, lease = excluded.lease,
	expires = excluded.expires, content = excluded.content, writes = old.writes + 1
	WHERE old.expires <= ? AND old.format = `+theFormat, append(columns, now)...)
	}
	// IGNORE turns errors about values that do not fit into warnings, too. These values fit.
	if inserted, err := s.exec(ctx, "INSERT IGNORE INTO "+s.table+values, columns...); inserted || err != nil {
		return inserted, err
	}
	return s.exec(ctx, s.update()+" WHERE id = ? AND expires + 0 <= ? AND format = "+theFormat, append(columns, now)...)
}

func (s *Store) update() string {
	return "UPDATE " + s.table + " SET format = ?, state = ?, owner = ?, epoch = ?, lease = ?, expires = ?, content = ?, writes = writes + 1"
}

// whereOld is the condition that a row is still the token that the caller knows. It adds 0 to the
// time, so that MySQL does not look for the row in the index of times, where it locks ranges.
const whereOld = " WHERE id = ? AND state = ? AND owner = ? AND epoch = ? AND expires + 0 > ? AND format = " + theFormat

func wasOld(t *record.Token, now int64) []any {
	return []any{t.Key[:], int64(t.State), []byte(t.Owner), int64(t.Epoch), now} //nolint:gosec // bits, compared for equality
}

// exec executes a statement and reports whether it changed a row.
func (s *Store) exec(ctx context.Context, statement string, args ...any) (bool, error) {
	result, err := s.db.ExecContext(ctx, s.dialect.Bind(statement), args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

// same reports whether two tokens are equal in the fields that the condition of a swap compares.
func same(a, b *record.Token) bool {
	if a.State == record.Absent {
		return b.State == record.Absent
	}
	return a.State == b.State && a.Owner == b.Owner && a.Epoch == b.Epoch
}
