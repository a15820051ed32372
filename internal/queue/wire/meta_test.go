package wire

import (
	"strings"
	"testing"
	"time"
)

func TestTheAttributeWithTheRestIsWrittenAsEncodingJSONWritesIt(t *testing.T) {
	texts := []string{"", "x", "application/json; charset=utf-8", "<a>&'b'", `say "hi"`, `back\slash`, "tab\t", "\x7f", "käse", "\uFFFF", strings.Repeat("long", 100)}
	times := []time.Time{sentAt, time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 123456000, time.UTC)}
	check := func(x meta) {
		t.Helper()
		if got, want := x.encode(), encodeJSON(x); got != want {
			t.Errorf("%+v: %s, not %s", x, got, want)
		}
	}
	for _, text := range texts {
		for _, x := range []meta{
			{ContentType: text, Encoding: encodingBase64},
			{Encoding: text, Principal: "alice"},
			{Form: text},
			{ContentType: "text/plain", Principal: text, Route: text},
			{ID: text, Route: "POST /x"},
			{Group: text, Form: "y"},
			{Source: text},
			{Headers: map[string]string{"a": text}, ContentType: "text/plain"},
		} {
			check(x)
			for _, at := range times {
				x.Accepted, x.NotBefore = &at, &at
				check(x)
			}
		}
	}
}
