package config_test

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/config"
)

func parsed(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("once.yaml", []byte(text))
	if err != nil {
		t.Fatal("the configuration must be valid:", err)
	}
	return c
}

func TestANameAndAQualifierOfAFunctionHaveTheLimitsOfLambda(t *testing.T) {
	a := func(n int) string { return strings.Repeat("a", n) }
	for text, valid := range map[string]bool{
		a(64): true, a(65): false, "f:" + a(128): true, "f:" + a(129): false, "f:$LATEST": true, "f:$OTHER": false,
		"": false, "f:": false, ":a": false, "f:a:b": false, "a b": false, "a\n": false,
		"arn:aws:lambda:eu-west-1:123456789012:function:" + a(64): true, "arn:aws:lambda:eu-west-1:123456789012:function:" + a(65): false,
	} {
		if _, err := config.ParseFunction(text); (err == nil) != valid {
			t.Errorf("%q: got %v, want valid %t", text, err, valid)
		}
	}
}

// Every function on AWS links this package and initializes it at its start. Compiled regular
// expressions took 250 KB.
func TestTheInitializationAllocatesLittle(t *testing.T) {
	const most = 16 << 10
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	command.Env = append(os.Environ(), "GODEBUG=inittrace=1", "GORACE=atexit_sleep_ms=0")
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("the program must end well: %v\n%s", err, out)
	}
	found := regexp.MustCompile(`init github.com/effectively-once/once/internal/config @.* clock, (\d+) bytes`).FindSubmatch(out)
	if found == nil {
		t.Fatalf("no line about the package in\n%s", out)
	}
	if bytes, err := strconv.Atoi(string(found[1])); err != nil || bytes > most {
		t.Errorf("the package allocates %s bytes, %v; want at most %d", found[1], err, most)
	}
}

func TestAFunctionOfADeploymentIsTheHandlerOfItsStream(t *testing.T) {
	c := parsed(t, "streams: {orders: {}, refunds: {}, mail: {}}\nhandlers:\n  orders: {concurrency: 2}\n  refunds: {lambda: old, timeout: 5s}\n  mail: {url: \"https://mail.example\", secret: \"env:S\"}\n")
	if err := c.SetFunctions(map[string]string{"orders": "arn:1", "refunds": "arn:2"}); err != nil {
		t.Fatal("both functions must be accepted:", err)
	}
	if got := c.Handlers["orders"]; got != (config.Handler{Lambda: "arn:1", Concurrency: 2}) {
		t.Errorf("orders has %+v, want the function with the settings of the configuration", got)
	}
	if got := c.Handlers["refunds"]; got != (config.Handler{Lambda: "arn:2", Timeout: config.Duration(5 * time.Second)}) {
		t.Errorf("refunds has %+v, want the function with the settings of the configuration", got)
	}
	if got := c.Handlers["mail"].Kind(); got != config.HandlerURL {
		t.Errorf("mail has a handler of kind %s, want url", got)
	}
}

func TestAFunctionForAStreamThatCanNotHaveItIsRefused(t *testing.T) {
	const text = "streams: {orders: {}, work: {pool: {}}, mail: {}}\nhandlers: {mail: {url: \"https://mail.example\", secret: \"env:S\"}}\n"
	for stream, want := range map[string]string{
		"order": `handlers.order: there is no stream "order"`,
		"work":  "handlers.work: the stream has a pool",
		"mail":  "handlers.mail: the configuration has url",
	} {
		if err := parsed(t, text).SetFunctions(map[string]string{stream: "f"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", stream, err, want)
		}
	}
}

func TestTheTimeoutOfAHandlerHasToFitIntoThatOfItsFunction(t *testing.T) {
	const text = "streams: {orders: {}, now: {direct: true, order: none}}\nhandlers:\n  orders: {timeout: TIMEOUT}\n  now: {lambda: f}\n"
	for _, x := range []struct {
		timeout         string
		process, ingest time.Duration
		want            string // empty: it fits
	}{
		{"26s", 30 * time.Second, 29 * time.Second, ""},
		{"27s", 30 * time.Second, 29 * time.Second, "handlers.orders.timeout: 27s does not fit into the timeout of the process function, which is 30s: lower it to at most 26s, or raise the timeout of the functions to at least 31s"},
		{"1s", 10 * time.Second, 29 * time.Second, "handlers.now.timeout: 10s does not fit into the timeout of the process function, which is 10s"},
		{"1s", 60 * time.Second, 13 * time.Second, "handlers.now.timeout: 10s does not fit into the timeout of the ingest function, which is 13s"},
		{"50s", 60 * time.Second, 29 * time.Second, ""},
	} {
		err := parsed(t, strings.Replace(text, "TIMEOUT", x.timeout, 1)).CheckTimeouts(x.process, x.ingest)
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%s in %v and %v: got %v, want %q", x.timeout, x.process, x.ingest, err, x.want)
		}
	}
}

func TestATimeoutThatNeedsALongerOneOfTheFunctionsIsAWarning(t *testing.T) {
	const text = "streams: {orders: {}, mail: {}}\nhandlers:\n  orders: {lambda: f, timeout: TIMEOUT}\n  mail: {url: \"https://mail.example\", secret: \"env:S\", timeout: 28s}\n"
	for timeout, want := range map[string]string{
		"26s": "", "27s": "handlers.orders.timeout: on AWS the timeout of the functions, which is 30s by default, must be at least 31s",
	} {
		got := strings.Join(parsed(t, strings.Replace(text, "TIMEOUT", timeout, 1)).Warnings(), "\n")
		if want == "" && strings.Contains(got, "timeout") || !strings.Contains(got, want) {
			t.Errorf("%s: got the warnings %q, want %q", timeout, got, want)
		}
	}
}
