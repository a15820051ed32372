package api

import (
	"encoding/json"
	"testing"

	"github.com/effectively-once/once/internal/dedup/admission"
)

func TestAReceiptIsWrittenAsEncodingJSONWritesIt(t *testing.T) {
	escaped := 0
	for _, name := range []string{"", "order-1", "a/b c~", `"`, `\`, "<", ">", "&", "\x7f", "\x00", "käse", "\u2028", "\xff"} {
		for _, x := range []receipt{{ID: name, Group: "g"}, {ID: "i", Stream: name}, {Group: name, Status: admission.StatusAccepted}} {
			want, err := json.Marshal(x)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := x.plain()
			switch {
			case !ok:
				escaped++
			case string(got) != string(want)+"\n":
				t.Errorf("%q, want %q", got, want)
			}
		}
	}
	if escaped != 3*10 {
		t.Errorf("%d receipts need escapes", escaped)
	}
}
