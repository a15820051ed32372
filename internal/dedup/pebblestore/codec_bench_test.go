package pebblestore

import (
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/pebbledb"
)

func benchGroup() dedup.Group {
	return dedup.Group{
		Key: dedup.GroupKey{Stream: "orders", Group: "customer-000001"}, Incarnation: 1, Version: 1, State: []byte(`{"cents":1200}`), Last: 1,
		Pending: []dedup.Pending{{
			Number: 1, Identity: "0123456789abcdef", Attempt: "0123456789abcdef0123456789abcdef",
			Token: dedup.TokenKey{1}, Fingerprint: dedup.Fingerprint{1}, Marks: true, Retention: 1 << 40,
			Effects: []dedup.Effect{{To: []string{"ledger"}, ID: "0123456789abcdef", ContentType: "application/json", Body: make([]byte, 200)}},
		}},
	}
}

func BenchmarkEncode(b *testing.B) {
	db, err := pebbledb.Open("", &pebble.Options{FS: vfs.NewMem()})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // nothing was written
	c, g := newCodec(), benchGroup()
	key := groupKey(g.Key)
	b.ReportAllocs()
	for b.Loop() {
		batch := db.NewBatch()
		if err := c.putGroup(batch, key, &g); err != nil {
			b.Fatal(err)
		}
		if err := batch.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	c, g := newCodec(), benchGroup()
	key := groupKey(g.Key)
	value := encoded(b, key, func(batch *pebble.Batch) error { return c.putGroup(batch, key, &g) })
	b.ReportAllocs()
	for b.Loop() {
		r, err := open(key, value)
		if err != nil {
			b.Fatal(err)
		}
		if err := c.group(r, &g); err != nil {
			b.Fatal(err)
		}
	}
}
