package powertools

import (
	"errors"
	"strings"
	"testing"
)

// The texts of Python and TypeScript are those of json.dumps and JSON.stringify. The libraries are
// compared in bench/powertools.
func TestEachLanguageWritesJSONInItsOwnWay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ payload, python, typeScript, java string }{
		{`{"b":1,"a":[true,null]}`, `{"a": [true, null], "b": 1}`, `{"a":[true,null],"b":1}`, `{"b":1,"a":[true,null]}`},
		{`{"B":1,"a":2,"C":3}`, `{"B": 1, "C": 3, "a": 2}`, `{"a":2,"B":1,"C":3}`, `{"B":1,"a":2,"C":3}`},
		{`{"10":1,"9":2,"a":3}`, `{"10": 1, "9": 2, "a": 3}`, `{"9":2,"10":1,"a":3}`, `{"10":1,"9":2,"a":3}`},
		{`{"x":1,"__proto__":2}`, `{"__proto__": 2, "x": 1}`, `{"x":1}`, `{"x":1,"__proto__":2}`},
		{`{"a":1,"b":2,"a":3}`, `{"a": 3, "b": 2}`, `{"a":3,"b":2}`, `{"a":3,"b":2}`},
		{`"é🎉\u0001\/"`, `"\u00e9\ud83c\udf89\u0001/"`, `"é🎉\u0001/"`, "é🎉\x01/"},
		{`["é\u001f"]`, `["\u00e9\u001f"]`, `["é\u001f"]`, `["é\u001F"]`},
		{`"\ud83d"`, `"\ud83d"`, `"\ud83d"`, `?`},
		{`"\ud83c\udf89"`, `"\ud83c\udf89"`, `"🎉"`, `🎉`},
		{`[1.0,1e16,1e-7,-0,-0.0]`, `[1.0, 1e+16, 1e-07, 0, -0.0]`, `[1,10000000000000000,1e-7,0,0]`, `[1.0,1.0E16,1.0E-7,0,-0.0]`},
		{`[1e400,-1e400]`, `[Infinity, -Infinity]`, `[null,null]`, `[Infinity,-Infinity]`},
		{`[0.001,12345678.5,1e7,0.0001]`, `[0.001, 12345678.5, 10000000.0, 0.0001]`, `[0.001,12345678.5,10000000,0.0001]`, `[0.001,1.23456785E7,1.0E7,1.0E-4]`},
		{`12345678901234567890`, `12345678901234567890`, `12345678901234567000`, `12345678901234567890`},
	} {
		v, err := parse([]byte(c.payload))
		if err != nil {
			t.Errorf("%s: %v; want a value", c.payload, err)
			continue
		}
		for l, want := range map[Language]string{Python: c.python, TypeScript: c.typeScript, Java: c.java} {
			if got := written(l, v); got != want {
				t.Errorf("%s of %s: %s, want %s", l, c.payload, got, want)
			}
		}
	}
}

func TestKeysAreThoseOfTheLibraries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		language      Language
		function, key string
	}{
		// md5 of "order-1" with its quotes, and in Java without
		{Python, "", "f.m.h#729040816f7330c4cb31f54a56f59a7b"},
		{TypeScript, "", "f.m.h#cpBAgW9zMMTLMfVKVvWaew=="},
		{Java, "MD5", "f.m.h#6e7f85a9d0fe9b5dfb504c6f2991d744"},
		{Python, "sha256", "f.m.h#4b08242598e89818f98b9cf7ec0d8ee9033be2c56e579847b0d60b6db516f746"},
	} {
		if got, err := Key(c.language, "f.m.h", c.function, []byte(`"order-1"`)); got != c.key || err != nil {
			t.Errorf("%s %s: %s, %v; want %s", c.language, c.function, got, err, c.key)
		}
	}
}

func TestPayloadsWithoutAKeyAreAnError(t *testing.T) {
	t.Parallel()
	for payload, languages := range map[string][]Language{
		`null`: {Python, TypeScript, Java}, `[null,null]`: {Python, Java}, `{"a":null}`: {Python, Java}, `{}`: {Python, Java}, `""`: {Python},
	} {
		for _, l := range []Language{Python, TypeScript, Java} {
			missing := false
			for _, m := range languages {
				missing = missing || m == l
			}
			if _, err := Key(l, "f", "", []byte(payload)); errors.Is(err, ErrNoKey) != missing {
				t.Errorf("%s in %s: %v; want an error that there is no key: %t", payload, l, err, missing)
			}
		}
	}
}

func TestBadInputIsAnError(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{``, `{`, `{"a"}`, `{"a":1,}`, `{a:1}`, `[1 2]`, `"a`, "\"\n\"", `"\x"`, `"\u12"`, `01`, `1.`, `.5`, `1e`, `-`, `nul`, `{} {}`, "\"\xff\"", strings.Repeat("[", 10_000)} {
		if _, err := Key(Python, "f", "", []byte(payload)); !errors.Is(err, errSyntax) {
			t.Errorf("%.20q: %v; want an error of the syntax", payload, err)
		}
	}
	if _, err := Key("ruby", "f", "", []byte(`1`)); err == nil {
		t.Error("an unknown language is no error")
	}
	if _, err := Key(Java, "f", "crc32", []byte(`1`)); err == nil {
		t.Error("an unknown hash function is no error")
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"a":[1,-2.5e3,"x\u00e9\ud83d",true,null]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		v, err := parse(in)
		if err != nil {
			return
		}
		for _, l := range []Language{Python, TypeScript} {
			text := written(l, v)
			again, err := parse([]byte(text))
			if strings.Contains(text, "Infinity") {
				continue // Python writes what is no JSON
			}
			if err != nil || written(l, again) != text {
				t.Errorf("%s of %q: %s is not the same when it is read again: %v", l, in, text, err)
			}
		}
	})
}
