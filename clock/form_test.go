package clock_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/effectively-once/once/clock"
)

func TestTheFormsOfAVectorAreStable(t *testing.T) {
	for text, binary := range map[string]string{
		"":                      "00",
		"a=1":                   "0100016101",
		"a=3,b=300":             "0200016103000162ac02",
		"node-1=1,node-2=2":     "02" + "00066e6f64652d3101" + "05013202",
		"a%2Cb%3D%C3%BC+%25=18": "01" + "0008612c623dc3bc2025" + "12",
	} {
		v := vector(t, text)
		if v.String() != text {
			t.Errorf("%q: the text is %q", text, v)
		}
		data, err := v.MarshalBinary()
		if err != nil || hex.EncodeToString(data) != binary {
			t.Errorf("%q: the binary form is %x, %v", text, data, err)
		}
		var again clock.Vector
		if err := again.UnmarshalBinary(data); err != nil || again.Compare(v) != clock.Equal {
			t.Errorf("%q: read as %s, %v", text, again, err)
		}
	}
}

func TestOnlyTheCanonicalFormOfAVectorIsRead(t *testing.T) {
	for _, text := range []string{
		"a", "=1", "a=", "a=0", "a=-1", "a=01", "a=+1", "a=1,", ",a=1", "b=1,a=1", "a=1,a=1", "a b=1", "%61=1", "%zz=1",
		"a=18446744073709551616", "a=1=2",
	} {
		if _, err := clock.ParseVector(text); !errors.Is(err, clock.ErrFormat) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for name, text := range map[string]string{
		"nothing": "", "a count without members": "01", "a huge count": "ffffffffffffffffff01", "number 0": "0100016100",
		"no name": "01000001", "not in order": "020001620100016101", "bytes behind it": "010001610100", "more shared than there is": "0101016101",
		"a long varint": "010001618100", "less shared than there is": "020001610100026162" + "01",
	} {
		data, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := new(clock.Vector).UnmarshalBinary(data); !errors.Is(err, clock.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheFormsOfAHybridClockAreStable(t *testing.T) {
	h, err := clock.ParseHybrid("2026-01-31T12:00:00.250Z-00ff")
	if err != nil {
		t.Fatal(err)
	}
	data, err := h.MarshalBinary()
	if err != nil || hex.EncodeToString(data) != "019c13ec9efa00ff" {
		t.Errorf("%x, %v", data, err)
	}
	var again clock.Hybrid
	if err := again.UnmarshalBinary(data); err != nil || again != h || again.String() != "2026-01-31T12:00:00.250Z-00ff" {
		t.Errorf("read as %s, %v", again, err)
	}
}

func TestOnlyTheCanonicalFormOfAHybridClockIsRead(t *testing.T) {
	for _, text := range []string{
		"", "-0000", "2026-01-31T12:00:00.250Z", "2026-01-31T12:00:00.250Z-00FF", "2026-01-31T12:00:00.250Z-ff", "2026-01-31T12:00:00.250Z_00ff",
		"2026-01-31T12:00:00.2509Z-00ff", "2026-01-31T12:00:00Z-00ff", "1969-12-31T23:59:59.999Z-0000", "2026-02-30T12:00:00.250Z-00ff",
	} {
		if h, err := clock.ParseHybrid(text); !errors.Is(err, clock.ErrFormat) {
			t.Errorf("%q: %s, %v", text, h, err)
		}
	}
	for _, data := range [][]byte{nil, make([]byte, 7), make([]byte, 9), bytes.Repeat([]byte{0xff}, 8)} {
		if err := new(clock.Hybrid).UnmarshalBinary(data); !errors.Is(err, clock.ErrFormat) {
			t.Errorf("%x: %v", data, err)
		}
	}
}

func FuzzVectorBinary(f *testing.F) {
	data, _ := hundred(f).MarshalBinary()
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		var v clock.Vector
		if v.UnmarshalBinary(data) != nil {
			return
		}
		if again, _ := v.MarshalBinary(); !bytes.Equal(again, data) {
			t.Errorf("%x is written as %x", data, again)
		}
		if parsed := vector(t, v.String()); parsed.Compare(v) != clock.Equal {
			t.Errorf("%s is read as %s", v, parsed)
		}
	})
}

func FuzzVectorText(f *testing.F) {
	f.Add("a=1,b%2C=300")
	f.Fuzz(func(t *testing.T, text string) {
		if v, err := clock.ParseVector(text); err == nil && v.String() != text {
			t.Errorf("%q is written as %q", text, v)
		}
	})
}

func FuzzHybridText(f *testing.F) {
	f.Add("2026-01-31T12:00:00.250Z-00ff")
	f.Fuzz(func(t *testing.T, text string) {
		if h, err := clock.ParseHybrid(text); err == nil && h.String() != text {
			t.Errorf("%q is written as %q", text, h)
		}
	})
}
