package file

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/pebbledb/presence"
	"github.com/effectively-once/once/internal/record"
)

// The kinds of record: the byte after the hash of the path. All marks are between marksFrom and
// marksTo.
const (
	lengths   byte = 'l' // committed length
	numbered  byte = 'n' // + stream, group, incarnation: last number
	singulars byte = 's' // + hash of the identity: written
	marksFrom      = numbered
	marksTo        = singulars + 1
)

// marks reads and names the records of one file.
type marks struct {
	db       *pebble.DB
	presence *presence.Filter
	file     [16]byte // hash of the path
}

// A mark names the record that shows whether a delivery was written: it was, if the recorded number
// is at least number.
type mark struct {
	key    []byte
	number uint64
	keep   time.Duration
}

func newMarks(db *pebble.DB, known *presence.Filter, path string) marks {
	hash := sha256.Sum256([]byte(path))
	return marks{db: db, presence: known, file: [16]byte(hash[:16])}
}

func (m *marks) prefix(kind byte) []byte {
	key := make([]byte, 0, 2+len(m.file)+sha256.Size)
	key = append(key, pebbledb.Files)
	key = append(key, m.file[:]...)
	return append(key, kind)
}

func (m *marks) lengthKey() []byte { return m.prefix(lengths) }

func (m *marks) identityKey(identity string) []byte {
	hash := sha256.Sum256([]byte(identity))
	return append(m.prefix(singulars), hash[:]...)
}

func (m *marks) groupKey(d *record.Delivery) []byte {
	key := m.prefix(numbered)
	key = binary.AppendUvarint(key, uint64(len(d.Stream)))
	key = append(key, d.Stream...)
	key = append(key, d.Group...)
	return binary.BigEndian.AppendUint64(key, d.Incarnation)
}

// covers reports whether the delivery was written, according to the store.
func (m *marks) covers(want *mark, now time.Time) (bool, error) {
	if m.presence.Absent(want.key) {
		return false, nil
	}
	value, closer, err := m.db.Get(want.key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer closer.Close()
	number, expires, err := parseMark(want.key, value)
	if err != nil {
		return false, err
	}
	return expires.After(now) && number >= want.number, nil
}

func (m *marks) length() (n int64, known bool, err error) {
	key := m.lengthKey()
	value, closer, err := m.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer closer.Close()
	n, err = parseLength(key, value)
	return n, err == nil, err
}

// format is the format of the records.
const format byte = 1

func seal(key, content []byte) []byte {
	value := append(make([]byte, 0, 32), format) // larger than all records but the signature
	return pebbledb.Seal(key, append(value, content...))
}

func open(key, value []byte) ([]byte, error) { return pebbledb.Unseal(format, key, value) }

// Committed returns the committed lengths of output files, which are named by their absolute paths;
// -1 means that the database knows none. It also returns how many other files the database knows.
func Committed(db *pebble.DB, paths []string) (lengths []int64, others int, err error) {
	named := map[[16]byte]bool{}
	for _, path := range paths {
		m := newMarks(db, nil, path)
		named[m.file] = true
		n, known, err := m.length()
		if err != nil {
			return nil, 0, err
		}
		if !known {
			n = -1
		}
		lengths = append(lengths, n)
	}
	others, err = countFiles(db, named)
	return lengths, others, err
}

// countFiles counts the files that have a committed length and are not among some.
func countFiles(db *pebble.DB, without map[[16]byte]bool) (n int, err error) {
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{pebbledb.Files}, UpperBound: []byte{pebbledb.Files + 1}})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	m := marks{db: db}
	for ok := it.First(); ok; {
		if len(it.Key()) <= len(m.file) {
			ok = it.Next()
			continue
		}
		m.file = [16]byte(it.Key()[1:])
		if _, known, err := m.length(); err != nil {
			return n, err
		} else if known && !without[m.file] {
			n++
		}
		ok = it.SeekGE(m.prefix(0xff))
	}
	return n, it.Error()
}

// CheckRecord returns an error if a record of this package can't be read.
func CheckRecord(key, value []byte) error {
	var err error
	switch at := 1 + len(marks{}.file); {
	case len(key) <= at:
		_, err = open(key, value)
	case key[at] == lengths:
		_, err = parseLength(key, value)
	case key[at] == numbered || key[at] == singulars:
		_, _, err = parseMark(key, value)
	default:
		_, err = open(key, value)
	}
	return err
}

func lengthValue(key []byte, n int64) []byte {
	return seal(key, binary.BigEndian.AppendUint64(nil, uint64(n))) //nolint:gosec // a length is not negative
}

func parseLength(key, value []byte) (int64, error) {
	content, err := open(key, value)
	if err == nil && len(content) != 8 {
		err = fmt.Errorf("%w: %d bytes", record.ErrCorrupt, len(content))
	}
	if err != nil {
		return 0, fmt.Errorf("read committed length: %w", err)
	}
	return int64(binary.BigEndian.Uint64(content)), nil //nolint:gosec // written from an int64
}

func markValue(key []byte, number uint64, expires time.Time) []byte {
	var content [16]byte
	binary.BigEndian.PutUint64(content[:8], uint64(expires.UnixMilli()))
	binary.BigEndian.PutUint64(content[8:], number)
	return seal(key, content[:])
}

func parseMark(key, value []byte) (number uint64, expires time.Time, err error) {
	content, err := open(key, value)
	if err == nil && len(content) != 16 {
		err = fmt.Errorf("%w: %d bytes", record.ErrCorrupt, len(content))
	}
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("read mark: %w", err)
	}
	millis := int64(binary.BigEndian.Uint64(content)) //nolint:gosec // written from an int64
	return binary.BigEndian.Uint64(content[8:]), time.UnixMilli(millis), nil
}
