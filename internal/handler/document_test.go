package handler

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzDocumentsAreSplitAsEncodingJSONReadsThem compares the members of objects and the elements of
// lists with those that encoding/json reads.
func FuzzDocumentsAreSplitAsEncodingJSONReadsThem(f *testing.F) {
	for _, text := range []string{
		`{}`, `[]`, ` { } `, ` [ ] `, `{"a":1}`, `[1]`, "\t{ \"a\" :\n[1, {\"b\":\"]\"}] , \"c\" : null }\r\n", `[ {"a":[1,2]} , "x,y" , -1e3 ]`,
		`{"q\"":"\\","\u0061":"\"}","":{}}`, `["\\\"", [[]], {}, true]`, `{"a,b":"c:d","{":"["}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := whole([]byte(text))
		if (err == nil) && !json.Valid([]byte(text)) {
			t.Fatalf("%q was accepted, and is not valid JSON", text)
		}
		if err != nil {
			return
		}
		switch v.raw[0] {
		case '[':
			var want, got []json.RawMessage
			if err := json.Unmarshal(v.raw, &want); err != nil {
				t.Fatal(err)
			}
			if got = split(v.raw); len(got)+len(want) > 0 && !cmp.Equal(got, want) {
				t.Errorf("elements of %s: got %s, want %s", text, got, want)
			}
		case '{':
			want := map[string]json.RawMessage{}
			if err := json.Unmarshal(v.raw, &want); err != nil {
				t.Fatal(err)
			}
			got, err := v.members()
			if twice := len(split(v.raw)) > 2*len(want); twice != (err != nil) || !twice && !cmp.Equal(got, want) {
				t.Errorf("members of %s: got %s %v, want %s", text, got, err, want)
			}
		}
	})
}
