package file

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

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

func FuzzCompactAgreesWithTheStandardLibrary(f *testing.F) {
	for _, seed := range []string{
		`{"a": [1, -0.5e+7, true, false, null, "x\u00e9\n"], "b" : {}}`, ` [ ] `, `01`, `-`, `1.`, `"\`, `"\u12"`, `[1,]`, `{"a":1,}`, "\x00", `tru`, `1 2`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		if !utf8.Valid(src) {
			return
		}
		var want bytes.Buffer
		wantOK := json.Compact(&want, src) == nil
		got, ok := appendCompact([]byte("before"), src)
		if ok != wantOK {
			t.Fatalf("appendCompact says %v, json.Compact %v", ok, wantOK)
		}
		if string(got) != "before"+want.String() && ok {
			t.Errorf("got %q, want %q", got, want.String())
		}
		if !ok && string(got) != "before" {
			t.Errorf("changed %q", got)
		}
	})
}

func FuzzStringsAreReadBackAsTheyWere(f *testing.F) {
	for _, seed := range []string{"", "a\"\\\n\r\t\x00\x7f", "é\u2028\ufffd", "\xff\xfe", "日本\xe6"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var got string
		if err := json.Unmarshal(appendString(nil, s), &got); err != nil {
			t.Fatal(err)
		}
		if want := string([]rune(s)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestJSONNestedTooDeeplyIsText(t *testing.T) {
	if _, ok := appendCompact(nil, []byte(strings.Repeat("[", maxDepth)+strings.Repeat("]", maxDepth))); !ok {
		t.Error("refused at the limit")
	}
	if _, ok := appendCompact(nil, []byte(strings.Repeat("[", maxDepth+1)+strings.Repeat("]", maxDepth+1))); ok {
		t.Error("accepted above the limit")
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
