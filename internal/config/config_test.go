package config_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/record"
)

func TestEveryProblemIsReportedWithFileLineAndField(t *testing.T) {
	schema := compileSchema(t)
	trace(t, "testdata/invalid.txt", func(document string) string {
		verdict := "schema: accepts\n"
		if schemaRefuses(t, schema, document) {
			verdict = "schema: refuses\n"
		}
		c, err := config.Parse("once.yaml", []byte(document))
		var invalid *config.InvalidError
		if !errors.As(err, &invalid) || c != nil || len(invalid.Problems) == 0 {
			t.Errorf("Parse gave %v, %v for:\n%s", c, err, document)
			return ""
		}
		return verdict + err.Error() + "\n"
	})
}

func TestValidDocumentsParseAndSatisfyTheSchema(t *testing.T) {
	schema := compileSchema(t)
	trace(t, "testdata/valid.txt", func(document string) string {
		c, err := config.Parse("once.yaml", []byte(document))
		if err != nil {
			t.Errorf("Parse: %v\n%s", err, document)
			return ""
		}
		if schemaRefuses(t, schema, document) {
			t.Errorf("the schema refuses:\n%s", document)
		}
		return describe(t, c)
	})
}

// describe returns a line for each stream, destination and warning.
func describe(t *testing.T, c *config.Config) string {
	t.Helper()
	var b strings.Builder
	for _, name := range c.StreamNames() {
		data, err := json.Marshal(c.Streams[name])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "stream %s %s\n", name, data)
	}
	for _, name := range c.DestinationNames() {
		d := c.Destinations[name]
		fmt.Fprintf(&b, "destination %s %s %s\n", name, d.Kind(), d.Target())
	}
	for _, name := range c.IngressNames() {
		data, err := json.Marshal(c.Ingress[name])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "ingress %s to %s %s\n", name, c.Ingress[name].StreamOf(name), data)
	}
	for _, name := range c.ScheduleNames() {
		x := c.Schedules[name].Settings(name)
		fmt.Fprintf(&b, "schedule %s %q in %q to %s/%s %s %q\n", name, x.Cron, x.Zone, x.Stream, x.Group, x.ContentType, x.Body)
	}
	for _, name := range c.HandlerNames() {
		data, err := json.Marshal(c.Handlers[name].WithDefaults())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "handler %s %s %s\n", name, c.Handlers[name].Kind(), data)
	}
	for _, at := range c.Restores {
		fmt.Fprintf(&b, "restore %s\n", at.Format(time.RFC3339))
	}
	if c.DeadLetters != (config.DeadLetters{}) {
		data, err := json.Marshal(c.DeadLetters)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "dead letters %s\n", data)
	}
	if c.Server != nil {
		data, err := json.Marshal(c.Server)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "server %s\n", data)
	}
	for _, w := range append(c.Warnings(), c.ServerWarnings()...) {
		fmt.Fprintf(&b, "warning %s\n", w)
	}
	for _, m := range c.MissingSecrets() {
		fmt.Fprintf(&b, "missing %s\n", m)
	}
	return b.String()
}

func TestTheEngineGetsTheStreamsSettings(t *testing.T) {
	c, err := config.Parse("once.yaml", []byte(`
streams:
  chat:
    admission: sequence
    retention: 15d
    state: {retain: 90d}
    gap: {policy: skip, after: 30s}
    held: {count: 3, bytes: 8MB, distance: 9}
    limits: {sources: 4, targets: 5, names: 6KB, ranges: 7}
  loose: {order: none}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := record.Stream{
		Name: "chat", Admission: record.BySequence, Retention: 15 * 24 * time.Hour, StateRetention: 90 * 24 * time.Hour,
		Gap:    record.Gap{Policy: record.GapSkip, After: 30 * time.Second},
		Bounds: record.Bounds{Count: 3, Bytes: 8_000_000, Distance: 9},
		Limits: record.Limits{Sources: 4, Targets: 5, Names: 6000, Ranges: 7},
	}
	if d := cmp.Diff(want, c.Streams["chat"].Settings("chat")); d != "" {
		t.Error(d)
	}
	want = record.Stream{Name: "loose", Admission: record.ByKey, Unordered: true, Gap: record.Gap{Policy: record.GapWait}}
	if d := cmp.Diff(want, c.Streams["loose"].Settings("loose"), cmp.FilterPath(func(p cmp.Path) bool {
		return p.String() == "Gap.Policy"
	}, cmp.Ignore())); d != "" {
		t.Error(d)
	}
}

func TestALogIsKeptForSevenDaysAndThatOfAPoolForThirty(t *testing.T) {
	c, err := config.Parse("once.yaml", []byte("streams: {log: {log: {}}, pool: {pool: {}}, both: {pool: {}, log: {}}, short: {pool: {}, log: {retain: 1h}}, none: {}}"))
	if err != nil {
		t.Fatal(err)
	}
	const day = 24 * time.Hour
	for name, want := range map[string]time.Duration{"log": 7 * day, "pool": 30 * day, "both": 30 * day, "short": time.Hour, "none": 0} {
		if got := c.Streams[name].Settings(name).LogRetention; got != want {
			t.Errorf("%s is kept for %v, want %v", name, got, want)
		}
	}
}

func TestTheDefaultIsTheDocumentedOneAndKeepsItsOwnRules(t *testing.T) {
	data, err := json.Marshal(config.Default())
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := config.Parse("default.json", data)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(config.Default(), parsed); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff("stream messages {\"admission\":\"key\",\"order\":\"group\",\"destinations\":[\"file\"]}\n"+
		"destination file file .once/messages.jsonl\n", describe(t, parsed)); d != "" {
		t.Error(d)
	}
}

func TestTheExampleAtTheRootIsValidWithoutWarnings(t *testing.T) {
	c, err := config.Load("../../once.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if w := c.Warnings(); len(w) != 0 {
		t.Errorf("warnings: %q", w)
	}
	for name, d := range c.Destinations {
		if d.Kind() != config.KindFile && d.Kind() != config.KindStream {
			t.Errorf("destination %s needs something outside of the process: %s", name, d.Kind())
		}
	}
}

func TestLoadDistinguishesAMissingFileFromAnInvalidOne(t *testing.T) {
	if _, err := config.Load(filepath.Join(t.TempDir(), "once.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if _, err := config.Load(t.TempDir()); err == nil || !strings.HasPrefix(err.Error(), "read configuration: ") {
		t.Errorf("a folder: %v", err)
	}
	path := filepath.Join(t.TempDir(), "my.yaml")
	if err := os.WriteFile(path, []byte("streams: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := config.Load(path)
	if err == nil || !strings.HasPrefix(err.Error(), path+":1: streams: ") {
		t.Errorf("bad: %v", err)
	}
	if err := os.WriteFile(path, []byte("#"+strings.Repeat("x", config.MaxSize)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = config.Load(path); err == nil || !strings.Contains(err.Error(), "at most 1048576 bytes") {
		t.Errorf("too large: %v", err)
	}
}

func TestASecretIsResolvedLateAndNeverShown(t *testing.T) {
	t.Setenv("HOOK_SECRET", " whsec_abc\n")
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("whsec_def\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for s, want := range map[config.Secret]string{"env:HOOK_SECRET": "whsec_abc", config.Secret("file:" + path): "whsec_def"} {
		got, err := s.Resolve()
		if err != nil || got != want {
			t.Errorf("%s: %q, %v", s.Place(), got, err)
		}
		var logged strings.Builder
		slog.New(slog.NewTextHandler(&logged, nil)).Info("opened", "secret", s, "destination", config.Destination{Secret: s})
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		shown := fmt.Sprintf("%s %v %q %#v %s %s", s, s, s, s, data, logged.String())
		if strings.Contains(shown, "HOOK") || strings.Contains(shown, path) || strings.Contains(shown, "whsec") {
			t.Errorf("shown: %s", shown)
		}
	}
	if _, err := config.Secret("env:NOT_SET_ANYWHERE").Resolve(); !errors.Is(err, config.ErrNoSecret) {
		t.Errorf("unset: %v", err)
	}
	if _, err := config.Secret("ssm:/hook").Resolve(); !errors.Is(err, config.ErrRemoteSecret) {
		t.Errorf("at a service: %v", err)
	}
	if _, err := config.Secret("file:" + path + "x").Resolve(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

func TestDurationsAndSizesAreReadAsWritten(t *testing.T) {
	for _, text := range []string{"15d", "1d12h", "30s", "24h30m", "90s", "250ms", "1h0m1s", "1d", "106751d"} {
		d, err := config.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := config.ParseDuration(d.String()); err != nil || again != d {
			t.Errorf("%s -> %s -> %v, %v", text, d, again, err)
		}
	}
	for text, want := range map[string]config.Size{"8MB": 8_000_000, "512KB": 512_000, "8MiB": 8 << 20, "1 GiB": 1 << 30, "17": 17, "3B": 3} {
		s, err := config.ParseSize(text)
		if err != nil || s != want {
			t.Errorf("%s: %d, %v", text, s, err)
		}
		if again, err := config.ParseSize(s.String()); err != nil || again != s {
			t.Errorf("%s -> %s -> %v, %v", text, s, again, err)
		}
	}
	for _, text := range []string{"", "d", "1d-1h", "+1h", "-1h", "1d1d", "106751d24h", "106752d", "999999999999d", "1dd", "1 h"} {
		if d, err := config.ParseDuration(text); err == nil {
			t.Errorf("%q is read as %s", text, d)
		}
	}
	for _, text := range []string{"", "MB", "-1", "1.5MB", "1TB", "9223372036854775807KB", "1  MB"} {
		if s, err := config.ParseSize(text); err == nil {
			t.Errorf("%q is read as %s", text, s)
		}
	}
	if d := config.Duration(36 * time.Hour); d.String() != "1d12h" {
		t.Errorf("got %s", d)
	}
	if d := config.Duration(23 * time.Hour); d.String() != "23h" {
		t.Errorf("got %s", d)
	}
}

func FuzzParse(f *testing.F) {
	for _, path := range []string{"testdata/invalid.txt", "testdata/valid.txt"} {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		_, cases := readTrace(string(data))
		for _, c := range cases {
			f.Add([]byte(c.document))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := config.Parse("once.yaml", data)
		var invalid *config.InvalidError
		if err != nil && (!errors.As(err, &invalid) || len(invalid.Problems) == 0 || c != nil) {
			t.Fatalf("not an InvalidError: %v", err)
		}
		if err != nil {
			for _, p := range invalid.Problems {
				if p.Line < 1 || p.Line > strings.Count(string(data), "\n")+strings.Count(string(data), "\r")+2 {
					t.Errorf("line %d is not in the file: %s", p.Line, p)
				}
			}
			return
		}
		written, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := config.Parse("again", []byte(strings.ReplaceAll(string(written), `"(secret)"`, `"env:X"`)))
		if err != nil {
			t.Fatalf("what was written is refused: %v\n%s", err, written)
		}
		if len(again.Streams) != len(c.Streams) || len(again.Destinations) != len(c.Destinations) {
			t.Errorf("read back %s", written)
		}
	})
}

func TestAProblemsPathQuotesNamesThatAreNoPlainWords(t *testing.T) {
	for name, want := range map[string]string{"aZ09_-": "aZ09_-", "a.b": `"a.b"`, "a b": `"a b"`, "a/b": `"a/b"`, "a:b": `"a:b"`, "a@b": `"a@b"`, "a{": `"a{"`} {
		_, err := config.Parse("x", []byte("streams: {'"+name+"': {nope: 1}}\n"))
		if err == nil || !strings.Contains(err.Error(), "streams."+want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOnlyAddressesOfThisMachineAreLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:8080": true, "127.9.9.9": true, "localhost": true, "localhost:8080": true, "[::1]:8080": true, "::1": true, "[::1]": true,
		"[::ffff:127.0.0.1]:8080": true, "::ffff:127.0.0.1": true,
		"": false, ":8080": false, "0.0.0.0:8080": false, "[::]:8080": false, "::": false, "[::ffff:0.0.0.0]:8080": false, "::ffff:10.0.0.1": false, "10.0.0.1:8080": false,
		"[fe80::1%eth0]:8080": false, "once.example.com:8080": false, "localhost.example.com:8080": false, "127.0.0.1.example.com:8080": false,
	} {
		if got := config.Loopback(address); got != want {
			t.Errorf("%q is an address of this machine: %t, want %t", address, got, want)
		}
	}
}
