package pebbledb

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/effectively-once/once/internal/record"
)

// A sealed record is
//
//	format(1) body checksum(4)
//
// The checksum is CRC-32C of the key and everything before the checksum, so a record under the
// wrong key is detected too. A change of the meaning of a record needs a new format number: a
// damaged record, or one of a newer program, must not read as something else.
const checksumSize = 4

// Seal appends the checksum to a record, which begins with its format.
func Seal(key, content []byte) []byte {
	return binary.BigEndian.AppendUint32(content, checksum(key, content))
}

// Unseal checks a sealed record of a format, and returns its body, which shares the record's
// memory. The error wraps [record.ErrCorrupt].
func Unseal(format byte, key, sealed []byte) ([]byte, error) {
	if len(sealed) < 1+checksumSize {
		return nil, fmt.Errorf("%w: %d bytes are too few", record.ErrCorrupt, len(sealed))
	}
	if sealed[0] != format {
		return nil, fmt.Errorf("%w: format %d, and this program reads %d", record.ErrCorrupt, sealed[0], format)
	}
	end := len(sealed) - checksumSize
	if checksum(key, sealed[:end]) != binary.BigEndian.Uint32(sealed[end:]) {
		return nil, fmt.Errorf("%w: wrong checksum", record.ErrCorrupt)
	}
	return sealed[1:end], nil
}

func checksum(key, content []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli()), castagnoli(), content)
}
