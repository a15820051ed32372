package dedup_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/dedup"
)

func TestTheRulesForMessages(t *testing.T) {
	long := strings.Repeat("x", dedup.MaxName+1)
	for _, c := range []struct {
		name   string
		change func(m *dedup.Message)
		field  string
	}{
		{"fine", func(*dedup.Message) {}, ""},
		{"numbered without id", func(m *dedup.Message) { m.ID, m.Source, m.Sequence = "", "p", 1 }, ""},
		{"no stream", func(m *dedup.Message) { m.Stream = "" }, "stream"},
		{"stream that starts with a dot", func(m *dedup.Message) { m.Stream = ".s" }, "stream"},
		{"stream with a slash", func(m *dedup.Message) { m.Stream = "a/b" }, "stream"},
		{"stream that is too long", func(m *dedup.Message) { m.Stream = strings.Repeat("s", dedup.MaxStreamName+1) }, "stream"},
		{"no id", func(m *dedup.Message) { m.ID = "" }, "id"},
		{"long id", func(m *dedup.Message) { m.ID = long }, "id"},
		{"control character", func(m *dedup.Message) { m.Group = "a\x1fb" }, "group"},
		{"no text", func(m *dedup.Message) { m.Principal = "\xff" }, "principal"},
		{"sequence without source", func(m *dedup.Message) { m.Sequence = 1 }, "source"},
		{"epoch without source", func(m *dedup.Message) { m.Epoch = 1 }, "source"},
		{"source without sequence", func(m *dedup.Message) { m.Source = "p" }, "sequence"},
		{"dependency without number", func(m *dedup.Message) { m.DependsOn = map[string]uint64{"p": 1} }, "depends-on"},
		{"dependency with a bad name", func(m *dedup.Message) { m.Source, m.Sequence, m.DependsOn = "p", 1, map[string]uint64{"\x00": 1} }, "depends-on"},
		{"large body", func(m *dedup.Message) { m.Body = make([]byte, dedup.MaxBody+1) }, "body"},
		{"largest body", func(m *dedup.Message) { m.Body = make([]byte, dedup.MaxBody) }, ""},
		{"header without name", func(m *dedup.Message) { m.Headers = map[string]string{"": "x"} }, "headers"},
		{"header that is no text", func(m *dedup.Message) { m.Headers = map[string]string{"a": "\xff"} }, "headers"},
		{"large headers", func(m *dedup.Message) { m.Headers = map[string]string{"a": strings.Repeat("x", dedup.MaxHeaders)} }, "headers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := dedup.Message{Stream: "s", ID: "a"}
			c.change(&m)
			err := m.Validate()
			var broken *dedup.InvalidError
			if c.field == "" && err != nil || c.field != "" && (!errors.As(err, &broken) || broken.Field != c.field || !strings.HasPrefix(err.Error(), c.field+" ")) {
				t.Errorf("got %v, want %q", err, c.field)
			}
		})
	}
}

func TestDefaultsOfGroupAndIdentity(t *testing.T) {
	for _, c := range []struct {
		m               dedup.Message
		group, identity string
	}{
		{dedup.Message{ID: "a"}, "a", "a"},
		{dedup.Message{ID: "a", Group: "g"}, "g", "a"},
		{dedup.Message{Source: "p", Epoch: 2, Sequence: 3}, "p", "p/2/3"},
		{dedup.Message{Source: "p", Sequence: 3, ID: "a"}, "p", "a"},
	} {
		same(t, "group", c.m.GroupName(), c.group)
		same(t, "identity", c.m.Identity(), c.identity)
	}
}

func TestAFingerprintCoversWhatTheSenderMeant(t *testing.T) {
	base := dedup.Message{Stream: "s", ID: "a", Group: "g", Body: []byte("body"), Headers: map[string]string{"trace": "1"}}
	for _, c := range []struct {
		name   string
		change func(m *dedup.Message)
		same   bool
	}{
		{"the same", func(*dedup.Message) {}, true},
		{"other headers", func(m *dedup.Message) { m.Headers = nil }, true},
		{"other body", func(m *dedup.Message) { m.Body = []byte("Body") }, false},
		{"other group", func(m *dedup.Message) { m.Group = "h" }, false},
		{"other route", func(m *dedup.Message) { m.Route = "POST /" }, false},
		{"a border elsewhere", func(m *dedup.Message) { m.Group, m.Body = "gb", []byte("ody") }, false},
	} {
		m := base
		c.change(&m)
		if got := m.Fingerprint() == base.Fingerprint(); got != c.same {
			t.Errorf("%s: same is %v", c.name, got)
		}
	}
}

func TestATokenKeyIsTheHashOfAReadableText(t *testing.T) {
	same(t, "text", dedup.TokenText("al\"ice", "s", "a b"), `once token principal="al\"ice" stream="s" id="a b"`)
	if dedup.NewTokenKey("a", "b", "c") == dedup.NewTokenKey("a", "b", "d") || len(dedup.NewTokenKey("", "", "").String()) != 64 {
		t.Error("not a hash")
	}
	same(t, "group", dedup.GroupKey{Stream: "s", Group: "g"}.String(), "s/g")
}
