package pebblestore

import (
	"fmt"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

// CheckRecord returns an error if a record of this package can't be read.
func CheckRecord(key, value []byte) error {
	r, err := open(key, value)
	if err != nil {
		return err
	}
	switch key[0] {
	case pebbledb.Groups:
		name, ok := parseGroupKey(key)
		if !ok {
			return fmt.Errorf("key of %d bytes: %w", len(key), record.ErrCorrupt)
		}
		_, err = decodeGroup(r, name)
	case pebbledb.Helds:
		_, err = decodeHeld(r)
	case pebbledb.Chunks:
		if len(key) < 16 {
			return fmt.Errorf("key of %d bytes: %w", len(key), record.ErrCorrupt)
		}
		_, err = decodeChunk(r, record.GroupKey{}, key)
	case pebbledb.Tokens:
		name, ok := parseTokenKey(key)
		if !ok {
			return fmt.Errorf("key of %d bytes: %w", len(key), record.ErrCorrupt)
		}
		_, err = decodeToken(r, name)
	}
	return err
}
