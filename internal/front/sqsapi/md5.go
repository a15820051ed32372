package sqsapi

import (
	"crypto/md5" //nolint:gosec // the checksum that SQS prescribes
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
)

// MD5OfBody returns the checksum by which senders and receivers verify a body.
func MD5OfBody(body string) string {
	sum := md5.Sum([]byte(body)) //nolint:gosec // prescribed
	return hex.EncodeToString(sum[:])
}

// md5OfAttributes returns the checksum by which senders and receivers verify message attributes, or
// an empty string if there are none.
func md5OfAttributes(attributes map[string]attribute) string {
	if len(attributes) == 0 {
		return ""
	}
	var b []byte
	put := func(value string) {
		b = binary.BigEndian.AppendUint32(b, uint32(len(value))) //nolint:gosec // at most 1 MiB
		b = append(b, value...)
	}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		a := attributes[name]
		put(name)
		put(a.DataType)
		if a.StringValue != nil {
			b = append(b, 1)
			put(*a.StringValue)
			continue
		}
		b = append(b, 2)
		put(string(a.BinaryValue))
	}
	sum := md5.Sum(b) //nolint:gosec // prescribed
	return hex.EncodeToString(sum[:])
}
