package pebblequeue

import (
	"bytes"
	"fmt"

	"github.com/effectively-once/once/internal/record"
)

// CheckRecord returns an error if a record of this package can't be read.
func CheckRecord(key, value []byte) error {
	_, rest, ok := bytes.Cut(key, []byte{0})
	if !ok || len(rest) == 0 {
		return fmt.Errorf("key of %d bytes: %w", len(key), record.ErrCorrupt)
	}
	var r stored
	switch rest[0] {
	case kindDedup:
		r = &dedupRecord{}
	case kindIncarnation:
		r = &incarnationRecord{}
	case kindMessage:
		r = &messageRecord{}
	case kindReceives:
		r = &receivesRecord{}
	default:
		return fmt.Errorf("a record of kind %q: %w", rest[0], record.ErrCorrupt)
	}
	return decode(key, value, r)
}
