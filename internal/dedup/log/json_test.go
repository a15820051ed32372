package log_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/clock"
	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/record"
)

func encoded(t testing.TB, entries ...record.Entry) []log.Encoded {
	t.Helper()
	chunks := log.Chunks(&record.Group{Key: room, Incarnation: 7}, entries)
	var out []log.Encoded
	for _, c := range chunks {
		part, err := log.Split(c, 0)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, part...)
	}
	return out
}

func full() record.Entry {
	at, err := clock.ParseHybrid("2026-01-02T03:04:05.000Z-0003")
	if err != nil {
		panic(err)
	}
	return record.Entry{
		Number: 1, Kind: record.EntryGap, ID: "i\"d", RedeliveryOf: "k", Principal: "ann", Source: "s", Epoch: 300, Sequence: 70_000, From: 1, To: 1 << 40, Parents: []uint64{3, 500},
		ParentsMissing: true, Late: true, Time: at, ContentType: "text/plain", Headers: map[string]string{"B": "2\n", "A": "1"}, Body: []byte("text"),
	}
}

func TestAnEntryInJSONHasEveryField(t *testing.T) {
	x := encoded(t, full())[0]
	got, err := x.AppendJSON([]byte("before "), 7, "ann")
	if err != nil {
		t.Fatal(err)
	}
	want := `before {"number":1,"offset":"0000000000007_0000000000000001","kind":"gap","id":"i\"d","redelivery_of":"k","source":"s","epoch":300,"sequence":70000,"from":1,"to":1099511627776,` +
		`"parents":[3,500],"parents_missing":true,"late":true,"time":"2026-01-02T03:04:05.000Z-0003","content_type":"text/plain","headers":{"A":"1","B":"2\n"},"body":"text","principal":"ann"}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestOffsetsSortAsTheirTextsWhateverTheirSize(t *testing.T) {
	last := ""
	for _, n := range []uint64{0, 1, 9, 10, 99, 1e15, 1e16 - 1} {
		o := log.Offset{Incarnation: 1767323045000, Number: n}
		text := o.String()
		if text <= last || text != fmt.Sprintf("%013d_%016d", o.Incarnation, n) {
			t.Errorf("%s follows %s", text, last)
		}
		last = text
	}
}

// FuzzEntry encodes entries with any text. JSON and CBOR have the same fields, and a body that is
// JSON stays the same value.
func FuzzEntry(f *testing.F) {
	f.Add("id", "text/plain", "k", "v", []byte("body"))
	f.Add("\xff\x00", "application/json", "\"", "\\", []byte(` { "a" : [1, 2.50] } `))
	f.Add("", "x/y+json; z", "\u2028", "\x7f", []byte(`{"a":`))
	f.Add("", "application/json", "a", "b", []byte(`null`))
	f.Fuzz(func(t *testing.T, id, contentType, name, value string, body []byte) {
		entry := record.Entry{Number: 1, Kind: record.EntryMessage, ID: id, ContentType: contentType, Headers: map[string]string{name: value}, Body: body, Time: clock.Hybrid(1)}
		x := encoded(t, entry)[0]
		text, err := x.AppendJSON(nil, 7, "")
		if err != nil || !json.Valid(text) {
			t.Fatalf("%q: %v", text, err)
		}
		for _, c := range text {
			if c < ' ' {
				t.Errorf("%q has control characters", text)
			}
		}
		var fields struct {
			Body   json.RawMessage
			Base64 []byte `json:"body_base64"`
		}
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		same := string(fields.Base64) == string(body) || len(body) == 0
		var s string
		if json.Unmarshal(fields.Body, &s) == nil && s == string(body) {
			same = true
		}
		var a, b any
		if json.Unmarshal(fields.Body, &a) == nil && json.Unmarshal(body, &b) == nil && cmp.Equal(a, b) {
			same = true
		}
		if !same {
			t.Errorf("%q became %s", body, text)
		}
		var binary struct{ Body []byte }
		if len(body) > 0 && (cbor.Unmarshal(x.AppendCBOR(nil, 7, ""), &binary) != nil || string(binary.Body) != string(body)) {
			t.Errorf("%q became %q", body, binary.Body)
		}
	})
}

// FuzzSplit splits and encodes damaged chunks.
func FuzzSplit(f *testing.F) {
	chunks := log.Chunks(&record.Group{Key: room, Incarnation: 7}, []record.Entry{full(), full()})
	f.Add(chunks[0].Data, uint64(1), uint64(2), uint64(0))
	f.Add([]byte{0, 1, 0xa0}, uint64(1), uint64(1<<63), uint64(5))
	f.Add([]byte("\x00\x05\xa1\x62\"0\x00"), uint64(1), uint64(1), uint64(0)) // a damaged name
	f.Fuzz(func(t *testing.T, data []byte, first, last, after uint64) {
		entries, err := log.Split(record.Chunk{Group: room, First: first, Last: last, Data: data}, after)
		if err != nil {
			return
		}
		for i := range entries {
			if text, err := entries[i].AppendJSON(nil, 7, ""); err == nil && !json.Valid(text) {
				t.Errorf("%q", text)
			}
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	var entries []record.Entry
	for i := range 1000 {
		e := full()
		e.Number, e.Kind, e.Late, e.Parents, e.From, e.To = uint64(i)+1, record.EntryMessage, false, nil, 0, 0
		e.Headers, e.Body, e.ContentType = nil, make([]byte, 100), "application/json"
		copy(e.Body, `{"text":"`)
		for k := 9; k < 98; k++ {
			e.Body[k] = 'x'
		}
		copy(e.Body[98:], `"}`)
		entries = append(entries, e)
	}
	x := encoded(b, entries...)
	var buf []byte
	b.Run("cbor", func(b *testing.B) {
		for b.Loop() {
			buf = buf[:0]
			for i := range x {
				buf = x[i].AppendCBOR(buf, 1767323045000, "")
			}
		}
		report(b, len(x), len(buf))
	})
	b.Run("json", func(b *testing.B) {
		for b.Loop() {
			buf = buf[:0]
			for i := range x {
				buf, _ = x[i].AppendJSON(buf, 1767323045000, "")
			}
		}
		report(b, len(x), len(buf))
	})
}

func report(b *testing.B, entries, size int) {
	b.ReportMetric(float64(b.N)*float64(entries)/b.Elapsed().Seconds(), "entries/s")
	b.ReportMetric(float64(size)/float64(entries), "B/entry")
}
