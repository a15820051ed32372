package file

import (
	"bytes"
	"testing"

	"github.com/effectively-once/once/internal/record"
)

// FuzzPlainLines checks that a line is the one that encoding/json writes.
func FuzzPlainLines(f *testing.F) {
	for _, body := range []string{`{"a":[1,-0.5e+3,true,null,"\u00e4\n"]}`, `"a text of more than eight letters"`, `[[[]]]`, `{ }`, "\"\x7f\"", `1`, `"<&> "`} {
		f.Add("orders", "g", "key", uint64(7), "application/json", []byte(body))
	}
	f.Add("", "g", "é", uint64(0), "application/json", []byte(`{}`))
	f.Fuzz(func(t *testing.T, stream, group, id string, n uint64, contentType string, body []byte) {
		d := record.Delivery{Stream: stream, Group: group, Number: n, Effect: record.Effect{ID: id, Source: group, Epoch: n / 2, Sequence: n, ContentType: contentType, Body: body}}
		if out, ok := appendPlain([]byte("before"), &d); ok && !bytes.Equal(out, appendEncoded([]byte("before"), &d)) {
			t.Errorf("%q in place of %q", out, appendEncoded([]byte("before"), &d))
		}
	})
}
