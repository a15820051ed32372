package record_test

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/effectively-once/once/internal/record"
)

func TestCompactJSONIsRecognised(t *testing.T) {
	for text, want := range map[string]bool{
		`{}`: true, `[]`: true, `"a long text of many letters, é and \n\\\""`: true, `{"a":[1,-0.5e+3,0,true,false,null,{"b":"c"}],"d":[[]]}`: true, `-0`: true, `1E9`: true,
		`{"a": 1}`: false, ` 1`: false, "1\n": false, "[1,\n2]": false, `01`: false, `1.`: false, `.5`: false, `-`: false, `1e`: false, `{"a"}`: false, `{"a":1,}`: false, `[1,]`: false, `{a:1}`: false,
		`"abc`: false, "\"1234567\x01\"": false, "\"12\x1f\"": false, `"\u00e4\uD7ff"`: true, `"\ud800"`: false, `"\u00e"`: false, `"\x"`: false, `"\`: false, `nul`: false, `truee`: false, `[`: false, `{`: false, `}`: false, `[1}`: false, `1 2`: false, ``: false,
	} {
		if record.IsCompactJSON([]byte(text)) != want {
			t.Errorf("%q: compact %v", text, !want)
		}
	}
}

func TestAValueEndsBeforeTheSpacesAfterIt(t *testing.T) {
	for text, want := range map[string]int{
		`{ "a" : [ 1 , 2 ] } `: 19, "[\t]\r": 3, `"a" : 1`: 3, `1 }`: 1, "[1,\n2]": -1, `{"a" 1}`: -1, `[1 2]`: -1, ``: -1,
	} {
		if end := record.JSONEnd([]byte(text), 0); end != want {
			t.Errorf("%q: %d, not %d", text, end, want)
		}
	}
}

// FuzzJSONEnd checks that recognised texts are JSON.
func FuzzJSONEnd(f *testing.F) {
	for _, text := range []string{`{"a":[1,-0.5e+3,true,null,"\u00e4\n"]}`, `"a text of more than eight letters"`, `[ [[]] ]`, `{ }`, `1`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if end := record.JSONEnd(text, 0); utf8.Valid(text) && end >= 0 && !json.Valid(text[:end]) {
			t.Errorf("%q is not JSON", text[:end])
		}
	})
}

func TestContentTypes(t *testing.T) {
	for contentType, want := range map[string][3]bool{ // IsJSON, and the results of MediaType
		"application/json": {true, true, true}, "application/problem+json; charset=utf-8": {true, true, true}, "Application/JSON": {true, true, true},
		"text/plain": {false, false, true}, "application/jsonl": {false, false, true}, "": {}, "a b": {}, "application/json; =": {true, true, false},
	} {
		isJSON, ok := record.MediaType(contentType)
		if got := [3]bool{record.IsJSON(contentType), isJSON, ok}; got != want {
			t.Errorf("%q: %v, not %v", contentType, got, want)
		}
	}
}
