package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatTheCommandLineGetsWrongIsNamed(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		args string
		want string
	}{
		{"dev --functions x", "--functions needs --lambda; see once dev --help"},
		{"dev --name x", "--name needs --lambda"},
		{"dev --timeout 1s", "--timeout needs --lambda"},
		{"dev --visibility 1s", "--visibility needs --lambda"},
		{"dev --batches 4", "--batches needs --lambda"},
		{"dev --sweep-every 1s", "--sweep-every needs --lambda"},
		{"dev --kill-every 2s", "--kill-every needs --lambda"},
		{"dev --duplicate 0.2", "--duplicate needs --lambda"},
		{"dev --hang 0.2", "--hang needs --lambda"},
		{"dev --lambda --data x", "--lambda and --data exclude each other"},
		{"dev --listen=", `--listen "" must be HOST:PORT`},
		{"dev --listen 8080", `--listen "8080" must be HOST:PORT`},
		{"dev --listen 127.0.0.1:99999", `--listen "127.0.0.1:99999" must be HOST:PORT`},
		{"dev --listen localhost:nowhere", `--listen "localhost:nowhere" must be HOST:PORT`},
		{"dev --lambda --listen [::1", `--listen "[::1" must be HOST:PORT`},
		{"dev --lambda --duplicate 1.5", "--duplicate must be between 0 and 1; see"},
		{"dev --lambda --duplicate NaN", "--duplicate must be between 0 and 1; see"},
		{"dev --lambda --hang -0.1", "--hang must be between 0 and 1"},
		{"dev --lambda --batches 0", "--batches must be at least 1"},
		{"dev --lambda --requests 0", "--requests must be at least 1"},
		{"dev --lambda --kill-every -1s", "--kill-every must be at least 0"},
		{"dev --lambda --timeout 0s", "--timeout must be more than 0"},
		{"dev --lambda --sweep-every -1s", "--sweep-every must be at least 0"},
		{"dev --lambda --timeout 1m --visibility 1m", "--visibility must be longer than the timeout, 1m0s"},
		{"redrive --reason bogus", `--reason "bogus" must be one of key-reuse, unknown, `},
		{"show --dead-letters --reason bogus", `--reason "bogus" must be one of key-reuse, unknown, `},
		{"send", "name a stream: once send STREAM [BODY]; see once send --help"},
		{"send orders 1 2", "accepts at most 2 arg(s)"},
		{"cost --body 99999", "once: --body must be between 0 and 20000; see"},
		{"cost --write-price -1", "once: --write-price must be at least 0; see"},
		{"cost --read-price NaN", "once: --read-price must be at least 0; see"},
	} {
		if code := w.once(t.Context(), "", strings.Fields(c.args)...); code != exitUsage || !strings.Contains(w.err.String(), c.want) {
			t.Errorf("once %s: exit %d, %q, want %q", c.args, code, w.err.String(), c.want)
		}
	}
}

func TestEndpointsThatAreNotThereOrNoneAreMistakesOfTheCommandLine(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		args           string
		dynamodb, both string
		want           []string
	}{
		{"dev --lambda", "", "", []string{"AWS_ENDPOINT_URL_DYNAMODB and AWS_ENDPOINT_URL_SQS are not set", "localstack/aws.sh run once dev --lambda …"}},
		{"dev --lambda", "http://127.0.0.1:1", "", []string{"AWS_ENDPOINT_URL_SQS is not set"}},
		{"dev --lambda", "127.0.0.1:1", "", []string{"AWS_ENDPOINT_URL_DYNAMODB is not an address"}},
		{"dev --lambda", "http://127.0.0.1:1", "http://", []string{"AWS_ENDPOINT_URL is not an address"}},
		{"show --stack Once --config testdata/files/shop.yaml", "", "localhost:4566", []string{"AWS_ENDPOINT_URL is not an address"}},
		{"send orders 1 --stack Once", "http://", "", []string{"AWS_ENDPOINT_URL_DYNAMODB is not an address"}},
		{"check --stack Once --config testdata/files/shop.yaml", "foo", "", []string{"AWS_ENDPOINT_URL_DYNAMODB is not an address"}},
		{"cost", "", "", []string{"AWS_ENDPOINT_URL_DYNAMODB is not set"}},
		{"cost", "localhost", "", []string{"AWS_ENDPOINT_URL_DYNAMODB is not an address"}},
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

func TestTheReasonsAreThoseThatOperationsExplains(t *testing.T) {
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
