package api_test

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/klauspost/compress/zstd"

	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

func gzipped(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zstded(t *testing.T, text string) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return z.EncodeAll([]byte(text), nil)
}

func TestACompressedBatchIsTaken(t *testing.T) {
	w := newWorld(t)
	batch := lines(`{"key":"a"}`, `{"key":"b"}`)
	w.wantResults(w.send("POST", ordersBatch, string(gzipped(t, batch)), ndjson, "Content-Encoding: gzip"), "202 a", "202 b")
	w.wantResults(w.send("POST", ordersBatch, string(zstded(t, batch)), ndjson, "Content-Encoding: zstd"), "202 a replayed", "202 b replayed")
	w.wantResults(w.send("POST", ordersBatch, batch, ndjson, "Content-Encoding: identity"), "202 a replayed", "202 b replayed")
}

func TestADecompressionBombIsRefused(t *testing.T) {
	w := newWorld(t)
	bomb := `{"key":"a"}` + strings.Repeat("\n", 17<<20)
	z, err := zstd.NewWriter(nil, zstd.WithWindowSize(16<<20), zstd.WithSingleSegment(false))
	if err != nil {
		t.Fatal(err)
	}
	var wide bytes.Buffer
	z.Reset(&wide)
	if _, err := z.Write([]byte(bomb)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		encoding string
		data     []byte
	}{
		"gzip": {"gzip", gzipped(t, bomb)}, "zstd": {"zstd", zstded(t, bomb)}, "a wide window": {"zstd", wide.Bytes()},
		"many frames": {"zstd", bytes.Repeat(zstded(t, strings.Repeat("\n", 1<<20)), 5)}, "many members": {"gzip", bytes.Repeat(gzipped(t, strings.Repeat("\n", 1<<20)), 5)},
	} {
		t.Run(name, func(t *testing.T) {
			if len(c.data) > 4<<20 {
				t.Fatalf("%d bytes are no bomb", len(c.data))
			}
			wantProblem(t, w.send("POST", ordersBatch, string(c.data), ndjson, "Content-Encoding: "+c.encoding), problem.TooLarge)
		})
	}
}

// items returns a CBOR sequence.
func items(t *testing.T, list ...any) string {
	t.Helper()
	var out []byte
	for _, v := range list {
		item, err := cbor.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, item...)
	}
	return string(out)
}

type fields map[string]any

func TestACBORSequenceIsABatchToo(t *testing.T) {
	w := newWorld(t)
	w.queue.set(func(q *ingress) { q.paused = true })
	for _, c := range []struct {
		record            fields
		body, contentType string
	}{
		{fields{"key": "a", "body": []byte("\xff\x00")}, "\xff\x00", ""},
		{fields{"key": "b", "body": fields{"b": 1, "a": []any{true, nil, -2, 1.5, "<"}}}, `{"a":[true,null,-2,1.5,"<"],"b":1}`, "application/json"},
		{fields{"key": "c", "content_type": "text/plain", "body": "text"}, "text", "text/plain"},
		{fields{"key": "d", "body": "text"}, `"text"`, "application/json"},
		{fields{"key": "e", "content_type": "application/json", "body": []byte(`{ }`)}, `{ }`, "application/json"},
		{fields{"source": "s", "epoch": 1, "sequence": 2, "group": "g", "depends_on": fields{"o": 3}, "headers": fields{"x-a": "1"}}, "", ""},
	} {
		got := w.send("POST", ordersBatch, items(t, c.record), cborSeq)
		var r struct {
			Status   int
			ID       string
			Replayed bool
		}
		if err := cbor.Unmarshal([]byte(got.body), &r); err != nil || r.Status != 202 || got.header.Get("Content-Type") != "application/cbor-seq" {
			t.Errorf("%v: %d %x, %v", c.record, got.status, got.body, err)
		}
		if m := w.queue.message(); string(m.Body) != c.body || m.ContentType != c.contentType || m.Identity() != r.ID {
			t.Errorf("%v: %q %q %q", c.record, m.Identity(), m.ContentType, m.Body)
		}
	}
	if m := w.queue.message(); m.Source != "s" || m.Epoch != 1 || m.Sequence != 2 || m.Group != "g" || m.DependsOn["o"] != 3 || m.Headers["X-A"] != "1" {
		t.Errorf("the last message: %+v", m)
	}
}

func TestABadItemFailsAloneWithItsPlace(t *testing.T) {
	w := newWorld(t)
	deep := any("x")
	for range 70 {
		deep = []any{deep}
	}
	for name, c := range map[string]struct{ item, want, detail string }{
		"unknown field":      {items(t, fields{"key": "x", "boody": 1}), "400 malformed-request", `unknown field "boody"`},
		"body_base64":        {items(t, fields{"key": "x", "body_base64": ""}), "400 malformed-request", "unknown field"},
		"no map":             {items(t, "key"), "400 malformed-request", "map"},
		"nil":                {"\xf6", "400 malformed-request", "map"},
		"a number as key":    {items(t, fields{"key": 1}), "400 malformed-request", "key has a value of the wrong type"},
		"a key twice":        {"\xa2\x63key\x61x\x63key\x61y", "400 malformed-request", "twice"},
		"a tag":              {"\xa1\x63key\xc1\x61x", "400 malformed-request", "tags"},
		"too deep":           {items(t, fields{"key": "x", "body": deep}), "400 malformed-request", "nested"},
		"bytes within":       {items(t, fields{"key": "x", "body": []any{[]byte("x")}}), "400 malformed-request", "JSON can't hold"},
		"not a number":       {"\xa2\x63key\x61x\x64body\xf9\x7e\x00", "400 malformed-request", ""},
		"a text of a number": {items(t, fields{"key": "x", "content_type": "text/plain", "body": 1}), "400 malformed-request", "text"},
		"no key":             {items(t, fields{"body": 1}), "400 missing-key", ""},
		"large":              {items(t, fields{"key": "x", "body": make([]byte, record.MaxBody+1)}), "413 too-large", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := w.send("POST", ordersBatch, items(t, fields{"key": "before"})+c.item+items(t, fields{"key": "after"}), cborSeq)
			var texts []string
			var bad result
			for rest := []byte(got.body); len(rest) > 0; {
				var r result
				var err error
				if rest, err = cbor.UnmarshalFirst(rest, &r); err != nil {
					t.Fatal(err)
				}
				texts = append(texts, r.String())
				if r.Problem != nil {
					bad = r
				}
			}
			if len(texts) != 3 || !strings.HasPrefix(texts[0], "202 before") || texts[1] != c.want || !strings.HasPrefix(texts[2], "202 after") {
				t.Fatalf("results %q", texts)
			}
			if bad.Problem.Line != 2 || !strings.Contains(bad.Problem.Detail, c.detail) {
				t.Errorf("problem %+v", bad.Problem)
			}
		})
	}
}
