package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/config"
)

func TestATableShowsControlCharactersAndOverridesEscaped(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"o-1", "o-1"},
		{"é 世界 a\\b", "é 世界 a\\b"},
		{"x\r\nINGRESS forged", `x\r\nINGRESS forged`},
		{"\x1b[2J\x00\x7f", `\x1b[2J\x00\x7f`},
		{"\u009b31m\u0085", `\u009b31m\u0085`},
		{"abc\u202etxt.exe\u202c\u2066\u200f", `abc\u202etxt.exe\u202c\u2066\u200f`},
		{"a\u2028b\u2029\ufeff\U000e0041", `a\u2028b\u2029\ufeff\U000e0041`},
		{"\xff\xc3", `\xff\xc3`},
		{"a\tb", `a\tb`},
	} {
		if got := safe(c.in); got != c.want {
			t.Errorf("safe(%q) = %q, want %q", c.in, got, c.want)
		}
	}
	var b bytes.Buffer
	if err := table(&b, [][]string{{"ID", "GROUP"}, {"x\ny\tz", "\x1b[31m"}}); err != nil || strings.Count(b.String(), "\n") != 2 || strings.ContainsAny(b.String(), "\x1b\t") {
		t.Errorf("%q, %v", b.String(), err)
	}
}

func TestACellOfATableIsBounded(t *testing.T) {
	var b bytes.Buffer
	if err := table(&b, [][]string{{strings.Repeat("é", 200_000), "b"}}); err != nil || b.Len() > 1000 {
		t.Errorf("%d bytes, %v", b.Len(), err)
	}
	if got := cell(strings.Repeat("é", maxCell)); got != strings.Repeat("é", maxCell) {
		t.Errorf("a cell of %d characters is cut: %q", maxCell, got)
	}
}

func TestTheGreetingSaysWhereTheMessagesOfAStreamGo(t *testing.T) {
	for want, s := range map[string]config.Stream{
		", no destinations": {},
		" -> a, b":          {Destinations: []string{"a", "b"}},
		" -> its logs":      {Log: &config.Log{}},
		" -> its sessions":  {Log: &config.Log{}, Pool: &config.Pool{}},
		" -> its logs, a":   {Log: &config.Log{}, Destinations: []string{"a"}},
	} {
		if got := outputs(s); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestALineSaysWhetherASystemHasWork(t *testing.T) {
	for _, c := range []struct {
		stats admin.Stats
		want  string
	}{
		{admin.Stats{Idle: true}, "idle"},
		{admin.Stats{Idle: true, Queues: []admin.QueueStats{{Queue: "publish", Delayed: 7}}}, "idle (delayed triggers check once more what is done)"},
		{admin.Stats{Queues: []admin.QueueStats{{Queue: "publish", Delayed: 7}}, NotDue: 2}, "at work, 2 delayed messages not due"},
	} {
		if got := verdict(&c.stats); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
