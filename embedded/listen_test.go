package embedded_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/embedded"
	"github.com/effectively-once/once/internal/testkit/concurrent"
	"github.com/effectively-once/once/internal/testkit/freeport"
)

const (
	shopKey  = "shop-0123456789abcdef"
	adminKey = "admin-0123456789abcdef"
)

// counting opens a system that counts visits.
func counting(t *testing.T, o embedded.Options) *once.System {
	t.Helper()
	sys, err := embedded.Open(filepath.Join(t.TempDir(), "data"), o)
	if err != nil {
		t.Fatal(err)
	}
	once.Handle(sys, "visits", func(_ context.Context, a *once.Attempt[int], _ once.Message) error {
		a.State++
		a.Reply(http.StatusOK, once.JSON(a.State))
		return nil
	})
	return sys
}

// running runs a system until the test ends, and returns the address that it gives to Ready.
func running(t *testing.T, o embedded.Options) (sys *once.System, address string) {
	t.Helper()
	ready, ended := make(chan string, 1), make(chan error, 1)
	o.Ready = func(a string) { ready <- a }
	sys = counting(t, o)
	ctx, stop := context.WithCancel(context.Background())
	go func() { ended <- sys.Run(ctx) }()
	select {
	case address = <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := sys.Close(); err != nil {
			t.Error(err)
		}
	})
	return sys, address
}

func TestRunRefusesOtherMachinesUnlessCallersAreAuthenticated(t *testing.T) {
	t.Setenv("SHOP_KEYS", "shop "+shopKey)
	const visits = "streams: {visits: {}}\n"
	const keys = `server: {auth: {keys: "env:SHOP_KEYS"}}`
	for _, c := range []struct {
		config, listen string
		insecure, runs bool
	}{
		{visits, "127.0.0.1:0", false, true},
		{visits, "", false, true}, // it does not listen
		{"", ":0", false, false},
		{visits, ":0", false, false},
		{visits, "0.0.0.0:0", false, false},
		// the address and the certificate are for once serve
		{visits + `server: {listen: ":0", tls: {cert: none, key: none}, console: read}`, "", false, true},
		{visits + `server: {listen: ":0"}`, "127.0.0.1:0", false, true},
		{visits + `server: {rate: {perSecond: 1}}`, ":0", false, false},
		{visits + keys, ":0", false, true},
		{visits, ":0", true, true},
	} {
		ctx, stop := context.WithCancel(t.Context())
		ready := false
		sys := counting(t, embedded.Options{Config: c.config, Listen: c.listen, Insecure: c.insecure, Ready: func(string) { ready = true; stop() }})
		err := sys.Run(ctx)
		stop()
		if ready != c.runs || (err == nil) != c.runs {
			t.Errorf("%q at %q, insecure %t: runs %t, %v; want %t", c.config, c.listen, c.insecure, ready, err, c.runs)
		}
		if err != nil && (!strings.Contains(err.Error(), "callers are not authenticated: listen on 127.0.0.1, or set server.auth") || !strings.Contains(err.Error(), "Options.Insecure")) {
			t.Errorf("%q at %q: %v, want an error that says what to do", c.config, c.listen, err)
		}
		if err := sys.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestTheServerBlockHoldsForPrograms calls a system by its listener and by its handler.
func TestTheServerBlockHoldsForPrograms(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"keys": "shop " + shopKey + "\nvisitor visitor-0123456789abcdef visits\n", "admin": adminKey} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "once.yaml")
	text := strings.ReplaceAll(`
streams: {visits: {}}
server:
  hosts: [once.example.com]
  auth: {keys: "file:DIR/keys", roles: {shop: [send, read]}}
  rate: {perSecond: 1, burst: 5}
  admin: {key: "file:DIR/admin"}
`, "DIR", dir)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	sys, address := running(t, embedded.Options{ConfigFile: file, Listen: ":0", Console: embedded.ConsoleRead})
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := sys.Handler()
	if err != nil {
		t.Fatal(err)
	}
	byHandler := httptest.NewServer(handler)
	defer byHandler.Close()
	call := func(method, url string, change func(*http.Request)) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		change(r)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Error(err)
		}
		return resp.StatusCode
	}
	as := func(key string) func(*http.Request) {
		return func(r *http.Request) {
			r.Header.Set("Authorization", "Bearer "+key)
			r.Header.Set("Idempotency-Key", "v-1")
			r.Header.Set("Prefer", "wait=10")
		}
	}
	const messages = "/v1/streams/visits/messages"
	for name, base := range map[string]string{"the listener": "http://127.0.0.1:" + port, "the handler": byHandler.URL} {
		for _, c := range []struct {
			what   string
			want   int
			status int
		}{
			{"no key", 401, call("POST", base+messages, func(*http.Request) {})},
			{"a wrong key", 401, call("POST", base+messages, as("wrong-0123456789abcdef"))},
			{"a key", 200, call("POST", base+messages, as(shopKey))},
			{"the health", 200, call("GET", base+"/healthz", func(*http.Request) {})},
			{"the metrics without a key", 401, call("GET", base+"/metrics", func(*http.Request) {})},
			{"the metrics with a key of one stream", 403, call("GET", base+"/metrics", as("visitor-0123456789abcdef"))},
			{"the metrics with a key", 200, call("GET", base+"/metrics", as(shopKey))},
			{"the console without a key", 401, call("GET", base+"/console", func(*http.Request) {})},
			{"the console with the key of operators", 200, call("GET", base+"/console", func(r *http.Request) { r.SetBasicAuth("me", adminKey) })},
		} {
			if c.status != c.want {
				t.Errorf("%s, %s: got %d, want %d", name, c.what, c.status, c.want)
			}
		}
	}
	host := func(name string) func(*http.Request) {
		return func(r *http.Request) { as("visitor-0123456789abcdef")(r); r.Host = name }
	}
	if got := call("POST", "http://127.0.0.1:"+port+messages, host("once.example.com")); got != 200 {
		t.Errorf("a host of the configuration: got %d, want 200", got)
	}
	if got := call("POST", "http://127.0.0.1:"+port+messages, host("other.example.com")); got != 403 {
		t.Errorf("another host: got %d, want 403", got)
	}
	limited := false
	for range 20 {
		limited = limited || call("GET", byHandler.URL+"/v1/streams/visits/groups", as(shopKey)) == http.StatusTooManyRequests
	}
	if !limited {
		t.Error("20 requests at once with a limit of 5: want one to get 429")
	}
}

// TestAProgramListensOnlyIfItAsksFor shares a configuration with a server that listens for callers
// and for operators.
func TestAProgramListensOnlyIfItAsksFor(t *testing.T) {
	t.Setenv("SHOP_KEYS", "shop "+shopKey)
	t.Setenv("ADMIN_KEY", adminKey)
	config := strings.NewReplacer("LISTEN", freeport.Address(t), "OPERATORS", freeport.Address(t)).Replace(`
streams: {visits: {}}
server: {listen: "LISTEN", auth: {keys: "env:SHOP_KEYS"}, console: write, admin: {listen: "OPERATORS", key: "env:ADMIN_KEY"}}
`)
	log := &concurrent.Buffer{}
	sys, address := running(t, embedded.Options{Config: config, Log: slog.New(slog.NewTextHandler(log, nil))})
	if address != "" || strings.Contains(log.String(), "ready for operators") {
		t.Errorf("it listens on %q:\n%s", address, log.String())
	}
	handler, err := sys.Handler()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/v1/streams/visits/groups": http.StatusUnauthorized, "/healthz": http.StatusOK} {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if answer.Code != want {
			t.Errorf("%s: %d, want %d", path, answer.Code, want)
		}
	}
	answer, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/console", nil)
	r.SetBasicAuth("me", adminKey)
	if handler.ServeHTTP(answer, r); answer.Code != http.StatusNotFound {
		t.Errorf("the console: %d, want none", answer.Code)
	}
	_, _ = running(t, embedded.Options{Config: config, Listen: "127.0.0.1:0", Log: slog.New(slog.NewTextHandler(log, nil))})
	if !strings.Contains(log.String(), "ready for operators") {
		t.Errorf("it does not listen for operators:\n%s", log.String())
	}
}

func TestARefusedAddressEndsRunBeforeOperatorsAreServed(t *testing.T) {
	t.Setenv("ADMIN_KEY", adminKey)
	log := &concurrent.Buffer{}
	sys := counting(t, embedded.Options{
		Listen: ":0", Log: slog.New(slog.NewTextHandler(log, nil)),
		Config: `{streams: {visits: {}}, server: {admin: {listen: "127.0.0.1:0", key: "env:ADMIN_KEY"}}}`,
	})
	if err := sys.Run(t.Context()); err == nil || strings.Contains(log.String(), "ready for operators") {
		t.Errorf("%v, want an error before:\n%s", err, log.String())
	}
	if err := sys.Close(); err != nil {
		t.Error(err)
	}
}

func TestAProgramThatOthersReachLogsHowTheyCouldMisuseIt(t *testing.T) {
	t.Setenv("SHOP_KEYS", "shop "+shopKey)
	const noKeys, noTLS = "callers are not authenticated", "the connection is not encrypted"
	for _, c := range []struct {
		options embedded.Options
		want    []string
	}{
		{embedded.Options{Listen: "127.0.0.1:0", Insecure: true}, nil},
		{embedded.Options{Listen: ":0", Insecure: true}, []string{noKeys, noTLS}},
		{embedded.Options{Listen: ":0", Config: "streams: {visits: {}}\nserver: {auth: {keys: \"env:SHOP_KEYS\"}}"}, []string{noTLS}},
	} {
		log := &concurrent.Buffer{}
		c.options.Log = slog.New(slog.NewTextHandler(log, nil))
		running(t, c.options)
		for _, text := range []string{noKeys, noTLS} {
			if warns := strings.Contains(log.String(), text); warns != slices.Contains(c.want, text) {
				t.Errorf("%s at %s: logged %t:\n%s", text, c.options.Listen, warns, log.String())
			}
		}
	}
}
