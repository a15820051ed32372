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
// The checksum is CRC-32C of the key and of everything before it, so a record under the wrong key is found out too. Whatever changes the meaning of a record changes
// the format: a damaged record, or one of a newer program, must not read as a line that was not written, or as another length to cut the file to.
const (
	format byte = 1

	checksumSize = 4
)

// seal makes a stored record.
func seal(key, content []byte) []byte {
	value := append(make([]byte, 0, 1+len(content)+checksumSize), format)
	value = append(value, content...)
	return binary.BigEndian.AppendUint32(value, checksum(key, value))
}

// open checks a stored record and gives its content, which shares the record's memory.
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
