package pebblequeue

import (
	"encoding/hex"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/effectively-once/once/internal/pebbledb"
)

func TestRecordsOfEarlierProgramsAreRead(t *testing.T) {
	id := uuid.MustParse("01234567-89ab-cdef-0123-456789abcdef")
	for text, want := range map[string]stored{
		"02a801500123456789abcdef0123456789abcdef0264626f647903a26162613162616162c3a904616705616406646f6e6365071b17979cfe3d85cd15081b17979cfe71c4c9ff": &messageRecord{
			ID: id, Body: "body", Attributes: map[string]string{"b": "1", "aa": "é"}, Group: "g", DedupID: "d", Sender: "once", Sent: 1700000000123456789, Due: 1700000000999999999,
		},
		"02a30150000000000000000000000000000000000261780720": &messageRecord{Body: "x", Sent: -1},
		"02a10119012c": &receivesRecord{300},
		"02a301616402500123456789abcdef0123456789abcdef0309": &dedupRecord{DedupID: "d", ID: id, Expires: 9},
		"02a10103": &incarnationRecord{3},
	} {
		data, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		key := []byte("key")
		read := fresh(want)
		if err := decode(key, pebbledb.Seal(key, data), read); err != nil {
			t.Errorf("%T: %v", want, err)
		}
		if diff := cmp.Diff(want, read); diff != "" {
			t.Errorf("%T (-want +got):\n%s", want, diff)
		}
	}
}

// fresh returns an empty record of the same kind.
func fresh(r stored) stored {
	switch r.(type) {
	case *messageRecord:
		return &messageRecord{}
	case *receivesRecord:
		return &receivesRecord{}
	case *dedupRecord:
		return &dedupRecord{}
	default:
		return &incarnationRecord{}
	}
}

func TestRecordsOfTheWrongShapeAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		into stored
	}{
		"an id of 15 bytes":        {"02a2014f0123456789abcdef0123456789abcd026178", &messageRecord{}},
		"an unknown field":         {"02a2026178190100f5", &messageRecord{}},
		"too many receives":        {"02a1011b0000000100000000", &receivesRecord{}},
		"another field":            {"02a10201", &receivesRecord{}},
		"an unknown field of a id": {"02a10401", &dedupRecord{}},
		"a byte too many":          {"02a1010300", &incarnationRecord{}},
	} {
		data, err := hex.DecodeString(c.text)
		if err != nil {
			t.Fatal(err)
		}
		key := []byte("key")
		if err := decode(key, pebbledb.Seal(key, data), c.into); err == nil {
			t.Errorf("%s: read %+v", name, c.into)
		}
	}
}

func TestAnEncodedRecordHasRoomForItsSealAndLittleMore(t *testing.T) {
	id := uuid.New()
	for _, r := range []stored{
		&messageRecord{
			ID: id, Body: string(make([]byte, 1000)), Attributes: map[string]string{"once-stream": "s", "once-id": string(make([]byte, 256))},
			Group: string(make([]byte, 128)), DedupID: string(make([]byte, 128)), Sender: "once", Sent: 1 << 60, Due: 1 << 60,
		},
		&receivesRecord{math.MaxUint32},
		&dedupRecord{DedupID: string(make([]byte, 128)), ID: id, Expires: math.MinInt64},
		&incarnationRecord{math.MaxUint64},
	} {
		data := encode(r)
		if spare := cap(data) - len(data); spare < 4 || spare > 64+cap(data)/8 {
			t.Errorf("%T of %d bytes has room for %d more", r, len(data), spare)
		}
	}
}
