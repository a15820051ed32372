package pebblequeue

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/queue"
)

// framed returns a record with the body and a valid checksum.
func sealed(format byte, key, body []byte) []byte {
	return pebbledb.Seal(key, append([]byte{format}, body...))
}

// FuzzRecord decodes bodies with a valid checksum: each is refused, or equals the decoded form of
// its encoding.
func FuzzRecord(f *testing.F) {
	for _, r := range []stored{
		&messageRecord{Body: "x", Attributes: map[string]string{"a": "1"}, Group: "g", DedupID: "d", Sender: "s", Sent: 1, Due: -1},
		&receivesRecord{7},
		&dedupRecord{DedupID: "d", Expires: 9},
		&incarnationRecord{3},
	} {
		f.Add(encode(r)[1:])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		comesBack(t, body, &messageRecord{}, &messageRecord{})
		comesBack(t, body, &receivesRecord{}, &receivesRecord{})
		comesBack(t, body, &dedupRecord{}, &dedupRecord{})
		comesBack(t, body, &incarnationRecord{}, &incarnationRecord{})
	})
}

func comesBack(t *testing.T, body []byte, first, again stored) {
	t.Helper()
	key := []byte("key")
	if err := decode(key, sealed(format+1, key, body), first); err == nil || !strings.Contains(err.Error(), "format 3") {
		t.Fatalf("of a newer format: %v", err)
	}
	if decode(key, sealed(format, key, body), first) != nil {
		return
	}
	if err := decode(key, pebbledb.Seal(key, encode(first)), again); err != nil {
		t.Fatalf("what was read can't be written: %v", err)
	}
	if diff := cmp.Diff(first, again, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("read, written and read again (-first +again):\n%s", diff)
	}
}

// FuzzMutatedRecord changes one record of a queue: then the queue does not open, and the error
// names the record.
func FuzzMutatedRecord(f *testing.F) {
	db, err := pebbledb.Open("db", &pebble.Options{FS: vfs.NewMem()})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = db.Close() })
	q, err := Open(db, "q.fifo", Options{Deduplicate: 1 << 40})
	if err != nil {
		f.Fatal(err)
	}
	mustSend(f, func() []queue.SendResult { return q.Send(f.Context(), inGroup("g", "a")) })
	receive(f, q, 1, 0)
	if err := q.Close(); err != nil {
		f.Fatal(err)
	}
	kinds := []byte{kindMessage, kindReceives, kindDedup, kindIncarnation}
	f.Add(uint8(0), uint16(0), uint16(1), []byte{format + 1})
	f.Add(uint8(1), uint16(3), uint16(1<<15), []byte{})
	f.Add(uint8(2), uint16(0), uint16(1<<15), []byte{})
	f.Add(uint8(3), uint16(1<<15), uint16(0), []byte{0})
	f.Fuzz(func(t *testing.T, kind uint8, at, cut uint16, put []byte) {
		key, data := first(t, db, keyPrefix("q.fifo", kinds[int(kind)%len(kinds)]))
		from := int(at) % (len(data) + 1)
		changed := append(append(bytes.Clone(data[:from]), put...), data[min(from+int(cut), len(data)):]...)
		if bytes.Equal(data, changed) {
			return
		}
		set(t, db, key, changed)
		defer set(t, db, key, data)
		if opened, err := Open(db, "q.fifo", Options{Deduplicate: 1 << 40}); err == nil {
			t.Fatalf("opened without a record, with %d messages", opened.Len())
		} else if !strings.Contains(err.Error(), `decode record "q`) {
			t.Fatalf("it does not say which record: %v", err)
		}
	})
}

func set(t *testing.T, db *pebble.DB, key, data []byte) {
	t.Helper()
	if err := db.Set(key, data, pebble.NoSync); err != nil {
		t.Fatal(err)
	}
}

// FuzzReceipt parses any text: it is refused, or equals the parsed form of its String.
func FuzzReceipt(f *testing.F) {
	for _, s := range []string{"1-2-3", "", "-", "--", "1-10000000001-1", "FFFFFFFFFFFFFFFFF-1-1", "+1-1-1", "1-1-1-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, ok := parseReceipt(s)
		if !ok {
			return
		}
		if again, ok := parseReceipt(r.String()); !ok || again != r {
			t.Fatalf("%q is %+v, and then %+v", s, r, again)
		}
	})
}
