package file

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/record"
)

func TestALineHasTheFieldsInTheirOrder(t *testing.T) {
	for _, c := range []struct {
		name string
		give record.Delivery
		want string
	}{
		{
			"everything",
			record.Delivery{
				Identity: "orders/eve/7", Stream: "orders", Group: "eve", Number: 7, Incarnation: 9, Sequence: 3, Target: "x",
				Effect: record.Effect{
					ID: "a", Source: "s", Epoch: 2, Sequence: 5, ContentType: "application/json",
					Headers: map[string]string{"b": "2", "a": "<1>"}, Body: []byte("{\n \"x\": [1, \"<&> \u2028\"]\n}\n"),
				},
			},
			`{"stream":"orders","group":"eve","number":7,"id":"a","source":"s","epoch":2,"sequence":5,"content_type":"application/json",` +
				`"headers":{"a":"<1>","b":"2"},"body":{"x":[1,"<&> ` + "\u2028" + `"]}}`,
		},
		{"relayed", record.Delivery{Stream: "s", Effect: record.Effect{ID: "a"}}, `{"stream":"s","id":"a"}`},
		{"text", body("text/plain", "a \"b\"\n\x01\\é"), `{"stream":"s","content_type":"text/plain","body":"a \"b\"\n\u0001\\é"}`},
		{
			"JSON of another type", body("application/cloudevents+JSON; charset=utf-8", " 1e5 "),
			`{"stream":"s","content_type":"application/cloudevents+JSON; charset=utf-8","body":1e5}`,
		},
		{"not JSON although it says so", body("application/json", "{"), `{"stream":"s","content_type":"application/json","body":"{"}`},
		{"JSON although it does not say so", body("", "{}"), `{"stream":"s","body":"{}"}`},
		{"binary", body("application/json", "\"\xff\""), `{"stream":"s","content_type":"application/json","body_base64":"Iv8i"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := string(appendLine(nil, &c.give))
			if diff := cmp.Diff(c.want+"\n", got); diff != "" {
				t.Error(diff)
			}
			if !json.Valid([]byte(got)) {
				t.Error("not JSON")
			}
		})
	}
}

func body(contentType, content string) record.Delivery {
	return record.Delivery{Stream: "s", Effect: record.Effect{ContentType: contentType, Body: []byte(content)}}
}

func FuzzLinesAreReadBackAsTheyWere(f *testing.F) {
	for _, seed := range []string{
		`{"a": [1, -0.5e+7, true, false, null, "x\u00e9\n"], "b" : {}}`, ` [ ] `, `01`, `-`, `1.`, `"\`, `"\u12"`, `"\u00FF\u00aF"`, `"\u00GF"`, `"\u00fG"`, `"\u00g0"`, `"\u00/0"`, `"\u00:0"`, `"\u00@0"`, `[1,]`, `{"a":1,}`, "\x00", `tru`, `trux`, `fals3`, `nuxl`, `[true,fal5e]`, `1 2`, "<",
		"", "a\"\\\n\r\t\x00\x7f", "é\u2028\ufffd", "\xff\xfe", "日本\xe6",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, contentType := range []string{"application/json", "text/plain"} {
			d := body(contentType, s)
			d.Group = s
			out := appendLine([]byte("before\n"), &d)
			var got struct {
				Group      string
				Body       json.RawMessage
				BodyBase64 []byte `json:"body_base64"`
			}
			text, found := bytes.CutPrefix(out, []byte("before\n"))
			if err := json.Unmarshal(text, &got); err != nil || !found || bytes.IndexByte(text, '\n') != len(text)-1 {
				t.Fatalf("%q: %v", out, err)
			}
			if got.Group != string([]rune(s)) {
				t.Errorf("group %q, want %q", got.Group, s)
			}
			if read := bodyOf(t, got.Body, got.BodyBase64, contentType, s); read != s {
				t.Errorf("body %q, want %q", read, s)
			}
		}
	})
}

// bodyOf returns the body of a line. A line's JSON has no white space, so the result equals the
// original only after the original was compacted.
func bodyOf(t *testing.T, raw json.RawMessage, binary []byte, contentType, original string) string {
	t.Helper()
	var compact bytes.Buffer
	switch {
	case raw == nil:
		return string(binary)
	case contentType == "application/json" && json.Compact(&compact, []byte(original)) == nil:
		if bytes.Equal(raw, compact.Bytes()) {
			return original
		}
		return string(raw)
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		t.Fatal(err)
	}
	return text
}

func TestJSONNestedTooDeeplyIsText(t *testing.T) {
	deep := strings.Repeat("[", 10001) + strings.Repeat("]", 10001) // encoding/json reads 10,000
	d := body("application/json", deep)
	if line := appendLine(nil, &d); !bytes.Contains(line, []byte(`"body":"[[`)) {
		t.Errorf("got %.100q", line)
	}
}

func BenchmarkLineOf1KB(b *testing.B) {
	var parts []string
	for i := range 20 {
		parts = append(parts, fmt.Sprintf("\"field_%d\": \"some text of a usual length %d\"", i, i))
	}
	d := body("application/json", "{"+strings.Join(parts, ", ")+"}")
	d.Group, d.Number = "a group", 17
	var line []byte
	for b.Loop() {
		line = appendLine(line[:0], &d)
	}
	b.SetBytes(int64(len(line)))
}
