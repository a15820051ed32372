package jsonpath

import (
	"errors"
	"strings"
	"testing"
)

const document = `{"id":"e-1","n":12345678901234567890,"f":1.0,"yes":true,"none":null,"empty":"",
 "detail":{"customer":{"id":7},"detail-type":"x","or'der \"id\"\\":"q","ü":"u"},"list":[["a"],{"b":"c"}],"":{"":"z"}}`

func TestAPathNamesOneValue(t *testing.T) {
	doc, err := Decode([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"$.id": "e-1", "$.n": "12345678901234567890", "$.f": "1.0", "$.yes": "true", "$['id']": "e-1", `$["id"]`: "e-1",
		"$.detail.customer.id": "7", "$.detail.detail-type": "x", `$.detail['or\'der "id"\\']`: "q", "$.detail.ü": "u",
		"$.list[0][0]": "a", "$.list[1].b": "c", "$['']['']": "z",
	} {
		p, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := doc.Text(p); err != nil || got != want || p.String() != text {
			t.Errorf("%s is %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestAValueThatIsMissingOrNoScalarIsAnErrorThatNamesThePath(t *testing.T) {
	doc, err := Decode([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"$.no": "is missing", "$.id.no": "is missing", "$.list[2]": "is missing", "$.detail[0]": "is missing", "$.none": "is null",
		"$.empty": "is empty", "$.detail": "is an object", "$.list": "is an array of 2", "$": "is an object",
	} {
		p, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		var missing *MissingError
		if _, err := doc.Text(p); !errors.As(err, &missing) || !strings.HasPrefix(err.Error(), text+" "+want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestAPathThatCanNameSeveralValuesOrNoneIsRefused(t *testing.T) {
	for _, text := range []string{
		"", "id", ".id", "$.", "$..id", "$.*", "$[*]", "$[-1]", "$[01]", "$[0", "$[", "$[]", "$['a'", "$['a", "$['a\\n']", "$[0:1]", "$[?@.a]", "$.a b", "$x", "$.a[1]b", "$.\xff",
		"$." + strings.Repeat("a", MaxLength),
	} {
		if p, err := Parse(text); err == nil {
			t.Errorf("%q is the path %+v", text, p)
		}
	}
}

func TestOnlyOneDocumentIsDecoded(t *testing.T) {
	for _, text := range []string{"", "{", "x", "{} {}", "1 2", `{"a":1}]`} {
		if _, err := Decode([]byte(text)); err == nil {
			t.Errorf("%q is a document", text)
		}
	}
}

func FuzzTextNeverPanics(f *testing.F) {
	f.Add("$.detail['a'][0].b", document)
	f.Fuzz(func(t *testing.T, path, document string) {
		p, err := Parse(path)
		if err != nil {
			return
		}
		if again, err := Parse(p.String()); err != nil || len(again.steps) != len(p.steps) {
			t.Errorf("%q is not read again: %v", path, err)
		}
		if doc, err := Decode([]byte(document)); err == nil {
			if text, err := doc.Text(p); err == nil && text == "" {
				t.Errorf("%q has an empty text", path)
			}
		}
	})
}
