package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestUsageErrorsNameTheMistake(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		args string
		want string
	}{
		{"dev --listen=", `--listen "" must be HOST:PORT`},
		{"dev --listen 8080", `--listen "8080" must be HOST:PORT`},
		{"dev --listen 127.0.0.1:99999", `--listen "127.0.0.1:99999" must be HOST:PORT`},
		{"dev --listen [::1", `--listen "[::1" must be HOST:PORT`},
		{"dev --listen localhost:nowhere", `--listen "localhost:nowhere" must be HOST:PORT`},
		{"redrive --reason bogus", `--reason "bogus" must be one of key-reuse, unknown, `},
		{"show --dead-letters --reason bogus", `--reason "bogus" must be one of key-reuse, unknown, `},
		{"send", "name a stream: once send STREAM [BODY]; see once send --help"},
		{"send orders 1 --delay soon", "once: --delay has to be a duration"},
		{"send orders 1 --delay 366d", "at most 365d"},
		{"send orders 1 --not-before noon", "--not-before has to be a time of RFC 3339"},
		{"send orders 1 --delay 1s --not-before 2030-01-01T00:00:00Z", "exclude each other"},
		{"send orders 1 --delay 1s --wait 1s", "exclude each other"},
		{"send orders --file x --delay 1s", "--file and --delay exclude each other"},
		{"send orders 1 2", "accepts at most 2 arg(s)"},
	} {
		if code := w.once(t.Context(), "", strings.Fields(c.args)...); code != exitUsage || !strings.Contains(w.err.String(), c.want) {
			t.Errorf("once %s: exit %d, %q, want %q", c.args, code, w.err.String(), c.want)
		}
	}
}

func TestInvalidEndpointsAreUsageErrors(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		args           string
		dynamodb, both string
		want           []string
	}{
		{"show --stack Once --config testdata/files/shop.yaml", "", "localhost:4566", []string{"AWS_ENDPOINT_URL is not an address"}},
		{"send orders 1 --stack Once", "http://", "", []string{"AWS_ENDPOINT_URL_DYNAMODB is not an address"}},
		{"check --stack Once --config testdata/files/shop.yaml", "foo", "", []string{"AWS_ENDPOINT_URL_DYNAMODB is not an address"}},
	} {
		t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", c.dynamodb)
		t.Setenv("AWS_ENDPOINT_URL_SQS", "")
		t.Setenv("AWS_ENDPOINT_URL", c.both)
		code := w.once(t.Context(), "", strings.Fields(c.args)...)
		if code != exitUsage || strings.Count(w.err.String(), "\n") != 1 {
			t.Errorf("once %s: exit %d, %q", c.args, code, w.err.String())
		}
		for _, want := range c.want {
			if !strings.Contains(w.err.String(), want) {
				t.Errorf("once %s says %q and not %q", c.args, w.err.String(), want)
			}
		}
	}
}

func TestABodyThatCanNotBeReadIsAnError(t *testing.T) {
	broken := errors.New("broken pipe")
	a := &app{in: iotest.ErrReader(broken)}
	if body, err := a.body([]string{"orders"}); !errors.Is(err, broken) || body != nil {
		t.Errorf("read %q, %v", body, err)
	}
	if err := error(&exitError{exitUsage, broken}); !errors.Is(err, broken) {
		t.Errorf("%v does not wrap its cause", err)
	}
}

func TestOperationsExplainsEveryReason(t *testing.T) {
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## Dead letters")
	table, _, _ = strings.Cut(table, "\n\n`once redrive`")
	var want, got []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(table, -1) {
		want = append(want, m[1])
	}
	for _, r := range reasons() {
		got = append(got, string(r))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-page +command)\n%s", d)
	}
}

func TestTheVersionIsAFlagToo(t *testing.T) {
	w := newWorld(t)
	if code := w.once(t.Context(), "", "version"); code != exitOK {
		t.Fatalf("exit %d: %s", code, w.err.String())
	}
	want := w.out.String()
	if code := w.once(t.Context(), "", "--version"); code != exitOK || w.out.String() != want {
		t.Errorf("exit %d: %q, want %q", code, w.out.String(), want)
	}
}

func TestAMissingSecretIsAWarningOfCheckAndTheErrorOfDevOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "once.yaml")
	text := "streams:\n  a: {destinations: [shop]}\ndestinations:\n  shop: {webhook: https://shop.example/hook, secret: env:ONCE_TEST_NO_SECRET}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.openErr = errors.New("destinations.shop.secret: it is missing")
	if code := w.once(t.Context(), "", "check", "--config", path); code != exitOK || strings.Count(w.err.String(), "secret: ") != 1 || !strings.Contains(w.err.String(), "once dev does not start without it") {
		t.Errorf("check: exit %d: %s", code, w.err.String())
	}
	if code := w.once(t.Context(), "", "dev", "--config", path); code == exitOK || strings.Count(w.err.String(), "secret: ") != 1 {
		t.Errorf("dev: exit %d: %s", code, w.err.String())
	}
}
