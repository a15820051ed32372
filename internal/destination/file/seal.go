package file

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/effectively-once/once/internal/record"
)

// A stored record is
//
//	format(1) content checksum(4)
//
// The checksum is CRC-32C of the key and everything before the checksum, so a record under the
// wrong key is detected too. A change of the meaning of a record needs a new format number: a
// damaged record, or one of a newer program, must not read as a missing line, or as a different
// length to which the file is truncated.
const (
	format byte = 1

	checksumSize = 4
)

// seal returns a stored record.
func seal(key, content []byte) []byte {
	value := append(make([]byte, 0, 1+len(content)+checksumSize), format)
	value = append(value, content...)
	return binary.BigEndian.AppendUint32(value, checksum(key, value))
}

// open checks a stored record and returns its content, which shares the record's memory.
func open(key, value []byte) ([]byte, error) {
	if len(value) < 1+checksumSize {
		return nil, fmt.Errorf("%w: %d bytes are too few", record.ErrCorrupt, len(value))
	}
	if value[0] != format {
		return nil, fmt.Errorf("%w: format %d, where this program knows %d", record.ErrCorrupt, value[0], format)
	}
	end := len(value) - checksumSize
	if checksum(key, value[:end]) != binary.BigEndian.Uint32(value[end:]) {
		return nil, fmt.Errorf("%w: wrong checksum", record.ErrCorrupt)
	}
	return value[1:end], nil
}

func checksum(key, content []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(key, table), table, content)
}
