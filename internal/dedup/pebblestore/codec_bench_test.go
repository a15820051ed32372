package pebblestore

import (
	"testing"

	"github.com/effectively-once/once/internal/dedup/encoding"
	"github.com/effectively-once/once/internal/pebbledb"
	"github.com/effectively-once/once/internal/record"
)

func benchGroup() record.Group {
	return record.Group{
		Key: record.GroupKey{Stream: "orders", Group: "customer-000001"}, Incarnation: 1, Version: 1, State: []byte(`{"cents":1200}`), Last: 1,
		Pending: []record.Pending{{
			Number: 1, Identity: "0123456789abcdef", Attempt: "0123456789abcdef0123456789abcdef",
			Token: record.TokenKey{1}, Fingerprint: record.Fingerprint{1}, Marks: true, Retention: 1 << 40,
			Effects: []record.Effect{{To: []string{"ledger"}, ID: "0123456789abcdef", ContentType: "application/json", Body: make([]byte, 200)}},
		}},
	}
}

func BenchmarkEncode(b *testing.B) {
	g := benchGroup()
	key := groupKey(g.Key)
	e := &encoding.Encoder{}
	b.ReportAllocs()
	for b.Loop() {
		e.B = e.B[:0]
		encodeGroup(e, &g)
		e.B = pebbledb.Seal(key, e.B)
	}
}

func BenchmarkDecode(b *testing.B) {
	g := benchGroup()
	key := groupKey(g.Key)
	e := &encoding.Encoder{}
	encodeGroup(e, &g)
	value := pebbledb.Seal(key, e.B)
	b.ReportAllocs()
	for b.Loop() {
		r, err := open(key, value)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := decodeGroup(r, g.Key); err != nil {
			b.Fatal(err)
		}
	}
}
