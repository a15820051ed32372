package batch

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"

	"github.com/effectively-once/once/internal/record"
)

// seeds are lines of every kind, right and wrong.
func seeds() []string {
	return []string{
		`{"key":"a","group":"g","body":{"n": [1, -0.5e+3, true, null, "\u00e4\n"]}}`, `{"source":"s","epoch":1,"sequence":2,"depends_on":{"o":1},"headers":{"X-A":"1"}}`,
		`{ "key" : "a" , "content_type" : "text/plain" , "body" : "text" }`, `{"key":"a","key":"b"}`, `{"KEY":"a"}`, `{"key":"a","body":1.}`, `{"key":"a","body":"\ud800"}`,
		`{"key":"a","sequence":01}`, `{"key":"a","sequence":18446744073709551616}`, `{"key":null,"body":null}`, `{"key":"a","body_base64":"AAE="}`, `{"key":"a","body_base64":"AAE"}`, `{"key":"a","body_base64":""}`, `{"key":"a"}x`, `[]`, `{}`, `{"key":"a",}`,
		`{"key":"a","body": {} }`, `{"key":"a","body":[[[[]]]]}`, "{\"key\":\"a\",\"body\":\"\x01\"}", `{"key":"a","content_type":"application/json; charset=utf-8","body":[ ]}`,
	}
}

// FuzzLines checks that the scanner and encoding/json read the same message from a line, and that
// any batch is read without a message that is not valid JSON.
func FuzzLines(f *testing.F) {
	for _, line := range seeds() {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var fast, slow jsonLine
		if utf8.Valid(data) && scanLine(data, &fast) { // as readLine has it
			if err := decodeLine(data, &slow); err != nil {
				t.Fatalf("the scanner reads %q; encoding/json: %v", data, err)
			}
			if !reflect.DeepEqual(fast, slow) {
				t.Fatalf("%q: the scanner reads %+v, encoding/json %+v", data, fast, slow)
			}
		}
		records, err := Read(NDJSON, data)
		if err != nil {
			return
		}
		out := answer(t, NDJSON, records)
		if n := countJSON(t, out); n != len(records) {
			t.Errorf("%d results for %d records", n, len(records))
		}
	})
}

// FuzzSequence checks that any CBOR sequence is read within the limits of a message.
func FuzzSequence(f *testing.F) {
	for _, v := range []any{
		map[string]any{"key": "a", "body": []byte("x")},
		map[string]any{"key": "a", "body": map[string]any{"n": []any{1, -1, 1.5, nil, true, "x"}}},
		map[string]any{"source": "s", "sequence": 1, "headers": map[string]string{"X-A": "1"}},
		[]any{1},
		map[string]any{"other": 1},
	} {
		item, err := cbor.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append(item, item...))
	}
	f.Add([]byte("\xbf\x63key\x61x\xff"))
	f.Add([]byte("\x9f\x9f\x9f"))
	f.Fuzz(func(t *testing.T, data []byte) {
		records, err := Read(CBORSeq, data)
		if err != nil {
			return
		}
		rest, n := answer(t, CBORSeq, records), 0
		for ; len(rest) > 0; n++ {
			var v any
			if rest, err = cbor.UnmarshalFirst(rest, &v); err != nil {
				t.Fatal(err)
			}
		}
		if n != len(records) {
			t.Errorf("%d results for %d records", n, len(records))
		}
	})
}

// FuzzCompressed checks that no compressed batch has more content than is allowed.
func FuzzCompressed(f *testing.F) {
	f.Add([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\xab\x4e\x04\x00"))
	f.Add([]byte("\x28\xb5\x2f\xfd\x04\x00\x29\x00\x00{\"a\"}"))
	var d Decoder
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, encoding := range []string{"gzip", "zstd"} {
			if out, err := d.Decode(encoding, data); err == nil && len(out) > MaxBytes {
				t.Errorf("%d bytes of %s", len(out), encoding)
			}
		}
	})
}

// answer checks each record, and returns the response to the batch.
func answer(t *testing.T, mediaType string, records []Record) []byte {
	t.Helper()
	results := make([]Result, len(records))
	for i := range records {
		checkRecord(t, &records[i])
		results[i] = Result{ID: records[i].Message.ID, Err: records[i].Err}
	}
	out, err := Write(mediaType, records, results, "urn:uuid:x")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// checkRecord checks what holds for every record.
func checkRecord(t *testing.T, r *Record) {
	t.Helper()
	switch {
	case r.Line < 1, r.Err != nil && r.Err.Detail == "", r.Err == nil && !utf8.ValidString(r.Message.ContentType):
		t.Errorf("record %+v", r)
	case r.Err != nil:
		return
	}
	for name, value := range r.Message.Headers {
		if !record.IsToken(name) || strings.ContainsAny(value, "\r\n") {
			t.Errorf("header %q: %q", name, value)
		}
	}
}

func countJSON(t *testing.T, lines []byte) (n int) {
	t.Helper()
	for start, i := 0, 0; i < len(lines); i++ {
		if lines[i] != '\n' {
			continue
		}
		if !json.Valid(lines[start:i]) {
			t.Errorf("result %q is not JSON", lines[start:i])
		}
		start, n = i+1, n+1
	}
	return n
}

// BenchmarkLine compares the scanner with encoding/json.
func BenchmarkLine(b *testing.B) {
	line := []byte(`{"key":"order-1","group":"customer-7","body":{"text":"` + strings.Repeat("x", 1000) + `"}}`)
	for name, read := range map[string]func([]byte, *jsonLine) bool{
		"scanner": scanLine, "encoding/json": func(line []byte, l *jsonLine) bool { return decodeLine(line, l) == nil },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				var l jsonLine
				if !read(line, &l) {
					b.Fatal("not read")
				}
			}
		})
	}
}
