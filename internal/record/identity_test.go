package record_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/record"
)

func TestValidateReportsTheFieldThatBreaksARule(t *testing.T) {
	long := strings.Repeat("x", record.MaxName+1)
	for _, c := range []struct {
		name   string
		change func(m *record.Message)
		field  string
	}{
		{"fine", func(*record.Message) {}, ""},
		{"numbered without id", func(m *record.Message) { m.ID, m.Source, m.Sequence = "", "p", 1 }, ""},
		{"no stream", func(m *record.Message) { m.Stream = "" }, "stream"},
		{"stream that starts with a dot", func(m *record.Message) { m.Stream = ".s" }, "stream"},
		{"stream with a slash", func(m *record.Message) { m.Stream = "a/b" }, "stream"},
		{"stream that is too long", func(m *record.Message) { m.Stream = strings.Repeat("s", record.MaxStreamName+1) }, "stream"},
		{"no id", func(m *record.Message) { m.ID = "" }, "id"},
		{"long id", func(m *record.Message) { m.ID = long }, "id"},
		{"control character", func(m *record.Message) { m.Group = "a\x1fb" }, "group"},
		{"no text", func(m *record.Message) { m.Principal = "\xff" }, "principal"},
		{"sequence without source", func(m *record.Message) { m.Sequence = 1 }, "source"},
		{"epoch without source", func(m *record.Message) { m.Epoch = 1 }, "source"},
		{"source without sequence", func(m *record.Message) { m.Source = "p" }, "sequence"},
		{"dependency without number", func(m *record.Message) { m.DependsOn = map[string]uint64{"p": 1} }, "depends-on"},
		{"dependency with a bad name", func(m *record.Message) { m.Source, m.Sequence, m.DependsOn = "p", 1, map[string]uint64{"\x00": 1} }, "depends-on"},
		{"many dependencies", func(m *record.Message) { m.Source, m.Sequence, m.DependsOn = "p", 1, sources(record.MaxDependsOn/16+1) }, "depends-on"},
		{"most dependencies", func(m *record.Message) { m.Source, m.Sequence, m.DependsOn = "p", 1, sources(record.MaxDependsOn/16) }, ""},
		{"large body", func(m *record.Message) { m.Body = make([]byte, record.MaxBody+1) }, "body"},
		{"largest body", func(m *record.Message) { m.Body = make([]byte, record.MaxBody) }, ""},
		{"header without name", func(m *record.Message) { m.Headers = map[string]string{"": "x"} }, "headers"},
		{"header that is no text", func(m *record.Message) { m.Headers = map[string]string{"a": "\xff"} }, "headers"},
		{"content type that is no text", func(m *record.Message) { m.ContentType = "\xff" }, "content-type"},
		{"large headers", func(m *record.Message) { m.Headers = map[string]string{"a": strings.Repeat("x", record.MaxHeaders)} }, "headers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := record.Message{Stream: "s", ID: "a"}
			c.change(&m)
			err := m.Validate()
			var broken *record.InvalidError
			if c.field == "" && err != nil || c.field != "" && (!errors.As(err, &broken) || broken.Field != c.field || !strings.HasPrefix(err.Error(), c.field+" ")) {
				t.Errorf("got %v, want %q", err, c.field)
			}
		})
	}
}

// sources returns a map with n names of eight bytes.
func sources(n int) map[string]uint64 {
	list := map[string]uint64{}
	for i := range n {
		list[fmt.Sprintf("%08d", i)] = 1
	}
	return list
}

func TestGroupAndIdentityHaveDefaults(t *testing.T) {
	for _, c := range []struct {
		m               record.Message
		group, identity string
	}{
		{record.Message{ID: "a"}, "a", "a"},
		{record.Message{ID: "a", Group: "g"}, "g", "a"},
		{record.Message{Source: "p", Epoch: 2, Sequence: 3}, "p", "p/2/3"},
		{record.Message{Source: "p", Sequence: 3, ID: "a"}, "p", "a"},
	} {
		if c.m.GroupName() != c.group || c.m.Identity() != c.identity {
			t.Errorf("%+v: got group %q and identity %q", c.m, c.m.GroupName(), c.m.Identity())
		}
	}
}

func TestAFingerprintCoversWhatTheSenderMeant(t *testing.T) {
	base := record.Message{Stream: "s", ID: "a", Group: "g", Body: []byte("body"), Headers: map[string]string{"trace": "1"}}
	for _, c := range []struct {
		name   string
		change func(m *record.Message)
		same   bool
	}{
		{"the same", func(*record.Message) {}, true},
		{"other headers", func(m *record.Message) { m.Headers = nil }, true},
		{"other body", func(m *record.Message) { m.Body = []byte("Body") }, false},
		{"other group", func(m *record.Message) { m.Group = "h" }, false},
		{"other route", func(m *record.Message) { m.Route = "POST /" }, false},
		{"other content", func(m *record.Message) { m.Content = [32]byte{1} }, false},
		{"a border elsewhere", func(m *record.Message) { m.Group, m.Body = "gb", []byte("ody") }, false},
	} {
		m := base
		c.change(&m)
		if got := m.Fingerprint() == base.Fingerprint(); got != c.same {
			t.Errorf("%s: same is %v", c.name, got)
		}
	}
	hashed, copied := base, base
	hashed.Content, copied.Content, copied.Body = [32]byte{1}, [32]byte{1}, []byte("written anew")
	if hashed.Fingerprint() != copied.Fingerprint() {
		t.Error("a part of the body that is not compared counts")
	}
	plain := base
	if plain.Body = hashed.Content[:]; plain.Fingerprint() == hashed.Fingerprint() {
		t.Error("a body is the same as a content with its bytes")
	}
}

func TestATokenKeyIsTheHashOfAReadableText(t *testing.T) {
	if got := record.NewTokenKey("al\"ice", "s", "a b"); got != sha256.Sum256([]byte(`once token principal="al\"ice" stream="s" id="a b"`)) {
		t.Errorf("got %s", got)
	}
	if record.NewTokenKey("a", "b", "c") == record.NewTokenKey("a", "b", "d") || len(record.NewTokenKey("", "", "").String()) != 64 {
		t.Error("not a hash")
	}
	if got := (record.GroupKey{Stream: "s", Group: "g"}).Path(); got != "s/g" {
		t.Errorf("got %s", got)
	}
}

func TestATokenTextQuotesNamesAsGoDoes(t *testing.T) {
	names := []string{"", "plain-1_2.3", "é", "日本", "a\u00a0b", "\u2028", "\xff\xfe", "~\x7f"}
	for c := range 256 {
		names = append(names, "a"+string([]byte{byte(c)})+"z")
	}
	for _, name := range names {
		q := strconv.Quote(name)
		if text := "once token principal=" + q + " stream=" + q + " id=" + q; record.NewTokenKey(name, name, name) != sha256.Sum256([]byte(text)) {
			t.Errorf("the key of %s is not the hash of %s", q, text)
		}
	}
}

func TestAGroupIsNamedInErrorsWithoutItsKey(t *testing.T) {
	key := record.GroupKey{Stream: "orders", Group: "secretkey"}
	for _, got := range []string{key.String(), fmt.Sprint(key), fmt.Sprintf("%v %+v", key, &key)} {
		if strings.Contains(got, "secretkey") || !strings.Contains(got, "orders#ad165b") {
			t.Errorf("got %s", got)
		}
	}
}
