package idempotency

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

func TestKey(t *testing.T) {
	long := strings.Repeat("k", maxKey)
	for _, c := range []struct {
		name   string
		values []string
		key    string
		bad    bool
	}{
		{"no field", nil, "", false},
		{"bare", []string{"8e03978e-40d5-43dd-bc93-6894a57f9324"}, "8e03978e-40d5-43dd-bc93-6894a57f9324", false},
		{"quoted spells the same", []string{`"8e03978e-40d5-43dd-bc93-6894a57f9324"`}, "8e03978e-40d5-43dd-bc93-6894a57f9324", false},
		{"quoted with escapes", []string{`"a \"b\" \\c"`}, `a "b" \c`, false},
		{"parameters are ignored", []string{`"a";v=1`}, "a", false},
		{"longest", []string{long}, long, false},
		{"too long", []string{long + "k"}, "", true},
		{"empty", []string{""}, "", true},
		{"empty in quotes", []string{`""`}, "", true},
		{"unclosed", []string{`"a`}, "", true},
		{"two fields", []string{"a", "b"}, "", true},
		{"two fields folded", []string{"a, b"}, "", true},
		{"two quoted folded", []string{`"a", "b"`}, "", true},
		{"not ASCII", []string{"é"}, "", true},
		{"control", []string{"a\tb"}, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := http.Header{}
			if c.values != nil {
				h["Idempotency-Key"] = c.values
			}
			key, err := Key(h)
			if key != c.key || errors.As(err, new(*MalformedError)) != c.bad {
				t.Errorf("got %q, %v", key, err)
			}
		})
	}
}

func FuzzKey(f *testing.F) {
	for _, seed := range []string{`"a"`, "a", `"a";b=?1`, "a,b", `"\`, ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		key, err := Key(http.Header{"Idempotency-Key": {value}})
		if err == nil && (key == "" || len(key) > maxKey) {
			t.Errorf("%q gives the key %q", value, key)
		}
	})
}
