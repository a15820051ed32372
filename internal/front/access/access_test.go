package access_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/front/access"
	"github.com/effectively-once/once/internal/front/roles"
	"github.com/effectively-once/once/internal/testkit/concurrent"
	"github.com/effectively-once/once/internal/testkit/eventually"
)

const (
	annsKey  = "ann-0123456789abcdef"
	annsNext = "ann-fedcba9876543210"
	bobsKey  = "bob-0123456789abcdef"
	adminKey = "adm-0123456789abcdef"
)

// A world is a server behind its access, and the list of its keys.
type world struct {
	t      *testing.T
	access *access.Access
	server *httptest.Server
	list   string // the file
	log    concurrent.Buffer
}

func newWorld(t *testing.T, c *config.Server, list string) *world {
	t.Helper()
	return newWorldOf(t, c, list, time.Millisecond)
}

func newWorldOf(t *testing.T, c *config.Server, list string, refresh time.Duration) *world {
	t.Helper()
	return newWorldBy(t, c, list, access.Options{Refresh: refresh})
}

func newWorldBy(t *testing.T, c *config.Server, list string, o access.Options) *world {
	t.Helper()
	w := &world{t: t, list: filepath.Join(t.TempDir(), "keys")}
	w.write(list)
	if c.Auth != nil && c.Auth.Keys == "file" {
		c.Auth.Keys = config.Secret("file:" + w.list)
	}
	o.Config, o.Streams, o.Log = c, []string{"orders", "chat"}, slog.New(slog.NewTextHandler(&w.log, nil))
	a, err := access.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	w.access = a
	w.server = httptest.NewServer(a.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := roles.Principal(r)
		streams := []string{"orders", "chat"}
		may := func(route string) string {
			return strings.Join(slices.DeleteFunc(slices.Clone(streams), func(s string) bool { return roles.Allow(r, route, s) != nil }), ",")
		}
		_, _ = fmt.Fprintf(w, "%s may use %s sends %s|%s", p, strings.Join(roles.Allowed(r, streams), ","), may("POST /v1/streams/{stream}/messages"), may("HEAD /v1/streams/{stream}/groups/{group}/log"))
	})))
	t.Cleanup(func() {
		w.server.Close()
		a.Close()
	})
	return w
}

func (w *world) write(list string) {
	w.t.Helper()
	if err := os.WriteFile(w.list, []byte(list), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (w *world) get(path string, headers ...string) answer {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.server.URL+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

func (w *world) is(what string, got answer, status int, body string) {
	w.t.Helper()
	if got.status != status || body != "" && !strings.Contains(got.body, body) {
		w.t.Errorf("%s: got %d %s, want %d with %q", what, got.status, got.body, status, body)
	}
}

func withKeys() *config.Server { return &config.Server{Auth: &config.Auth{Keys: "file"}} }

func TestAKeyGivesARequestItsPrincipalAndItsStreams(t *testing.T) {
	w := newWorld(t, withKeys(), "# keys of the shop\n\nann "+annsKey+"\n  ann\t"+annsNext+" orders,chat\nbob "+bobsKey+" chat\n")
	w.is("a bearer", w.get("/", "Authorization: Bearer "+annsKey), 200, "key:ann may use orders,chat")
	w.is("the second key of a principal", w.get("/", "Authorization: bearer "+annsNext), 200, "key:ann may use orders,chat")
	w.is("a key in its own header", w.get("/", "X-Api-Key: "+bobsKey), 200, "key:bob may use chat")
	w.is("the health without a key", w.get("/healthz"), 200, "")
}

func TestAKeyWithoutRolesSendsOnlyAndOthersHaveTheirsForTheStreamsOfTheirLine(t *testing.T) {
	c := withKeys()
	c.Auth.Roles = map[string][]string{"ann": {"read", "send:chat"}, "eve": {}}
	w := newWorld(t, c, "ann "+annsKey+"\nann "+annsNext+" orders\nbob "+bobsKey+"\neve "+adminKey+"\n")
	for key, want := range map[string]string{annsKey: "chat|orders,chat", annsNext: "|orders", bobsKey: "orders,chat|", adminKey: "|"} {
		w.is(key, w.get("/", "X-Api-Key: "+key), 200, " sends "+want)
	}
	if strings.Contains(w.log.String(), "only send") {
		t.Errorf("the log warns although there are roles: %s", w.log.String())
	}
	for _, auth := range []*config.Auth{{Keys: "file"}, {Keys: "file", Roles: map[string][]string{}}} {
		w := newWorld(t, &config.Server{Auth: auth}, "ann "+annsKey+"\n")
		w.is("a configuration of before", w.get("/", "X-Api-Key: "+annsKey), 200, " sends orders,chat|")
		if warns := strings.Contains(w.log.String(), "level=WARN") && strings.Contains(w.log.String(), "server.auth.roles: is missing"); warns != (auth.Roles == nil) {
			t.Errorf("roles %v: the log is %q, want a warning only without roles", auth.Roles, w.log.String())
		}
	}
}

func TestARouteWithoutARowIsRefusedForEveryKey(t *testing.T) {
	c := withKeys()
	c.Auth.Roles = map[string][]string{"ann": {"send", "read", "consume", "operate"}}
	c.Auth.Keys = "env:ONCE_TEST_KEYS"
	t.Setenv("ONCE_TEST_KEYS", "ann "+annsKey)
	a, err := access.Open(access.Options{Config: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	a.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		for _, route := range []string{"GET /v1/new", "PATCH /v1/stream/{stream}/{group...}", "Once-Delete", ""} {
			if roles.May(r, route, "orders") || roles.Allow(r, route, "orders") == nil || roles.Allow(r, route, "") == nil {
				t.Errorf("%q is allowed", route)
			}
		}
	})).ServeHTTP(httptest.NewRecorder(), func() *http.Request {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Header.Set("X-Api-Key", annsKey)
		return r
	}())
}

func TestEveryRequestWithoutAKeyOfTheListGetsTheSame401(t *testing.T) {
	w := newWorld(t, withKeys(), "ann "+annsKey+"\n")
	want := w.get("/v1/streams/orders/messages")
	if want.status != 401 || want.header.Get("WWW-Authenticate") != `Bearer realm="once"` || !strings.Contains(want.body, "#unauthorized") {
		t.Fatalf("without a key: %d %v %s, want 401 with WWW-Authenticate", want.status, want.header, want.body)
	}
	for name, headers := range map[string][]string{
		"a wrong key":               {"Authorization: Bearer " + bobsKey},
		"a part of a key":           {"Authorization: Bearer " + annsKey[:19]},
		"more than a key":           {"Authorization: Bearer " + annsKey + "x"},
		"the principal as a key":    {"Authorization: Bearer ann"},
		"an empty key":              {"Authorization: Bearer "},
		"another scheme":            {"Authorization: Basic " + annsKey},
		"no scheme":                 {"Authorization: " + annsKey},
		"two keys, the first right": {"Authorization: Bearer " + annsKey, "Authorization: Bearer " + bobsKey},
		"two X-Api-Key":             {"X-Api-Key: " + annsKey, "X-Api-Key: " + annsKey},
		"a wrong bearer, and a key": {"Authorization: Bearer x", "X-Api-Key: " + annsKey},
		"a principal of the caller": {"Once-Principal: key:ann", "X-Principal: key:ann"},
		"a token, without issuer":   {"Authorization: Bearer a.b.c"},
		"the key of the console":    {"Authorization: Basic " + adminKey},
		"a comment of the list":     {"Authorization: Bearer #"},
		"a key in a cookie":         {"Cookie: key=" + annsKey},
	} {
		got := w.get("/v1/streams/orders/messages", headers...)
		if got.status != want.status || got.body != want.body || got.header.Get("WWW-Authenticate") != want.header.Get("WWW-Authenticate") {
			t.Errorf("%s: got %d %s, want the answer to no key at all", name, got.status, got.body)
		}
	}
	w.is("a key in the query", w.get("/?key="+annsKey+"&access_token="+annsKey), 401, "")
	if strings.Contains(w.log.String(), "0123456789abcdef") {
		t.Errorf("a key is in the log:\n%s", w.log.String())
	}
	if !strings.Contains(w.log.String(), "request refused") {
		t.Errorf("the log does not say that requests were refused: %q", w.log.String())
	}
}

func TestAReloadRotatesAndRevokesKeysAndABrokenListChangesNothing(t *testing.T) {
	w := newWorld(t, withKeys(), "ann "+annsKey+"\n")
	use := func(key string) int { return w.get("/", "Authorization: Bearer "+key).status }
	check := func(when string, ann, next, bob int) {
		t.Helper()
		if a, n, b := use(annsKey), use(annsNext), use(bobsKey); a != ann || n != next || b != bob {
			t.Errorf("%s: ann's key gets %d, her next %d, bob's %d; want %d, %d, %d", when, a, n, b, ann, next, bob)
		}
	}
	check("at first", 200, 401, 401)
	w.write("ann " + annsKey + "\nann " + annsNext + "\nbob " + bobsKey + "\n")
	check("before the reload", 200, 401, 401)
	if err := w.access.Reload(); err != nil {
		t.Fatal(err)
	}
	check("after the reload", 200, 200, 200)
	for name, list := range map[string]string{"a short key": "ann " + annsNext + "\nbob short\n", "no key": "# none\n", "no file": ""} {
		w.write(list)
		if err := w.access.Reload(); err == nil {
			t.Errorf("a list with %s: no error", name)
		}
		check("after a list with "+name, 200, 200, 200)
	}
	w.write("ann " + annsNext + "\n")
	if err := w.access.Reload(); err != nil {
		t.Fatal(err)
	}
	check("after the old key and bob were revoked", 401, 200, 401)
}

func TestAListWithAMistakeIsRefusedWithItsLineAndWithoutItsKeys(t *testing.T) {
	for list, want := range map[string]string{
		"ann " + annsKey + "\nbob":                             "line 2: must be PRINCIPAL KEY, or PRINCIPAL KEY STREAM,STREAM",
		"ann " + annsKey + " orders chat":                      "line 1: must be PRINCIPAL KEY, or PRINCIPAL KEY STREAM,STREAM",
		"\n# x\nann " + annsKey[:19]:                           "line 3: the key must be at least 20 characters: make one with openssl rand -hex 32",
		"ann " + annsKey + "ä":                                 "line 1: the key must be visible ASCII characters",
		"änn " + annsKey:                                       "line 1: the principal must be at most 100 visible ASCII characters",
		strings.Repeat("a", 101) + " " + annsKey:               "line 1: the principal must be at most 100 visible ASCII characters",
		"ann " + annsKey + " orders,ordrs":                     "line 1: name 2 in the list of streams is not a stream; there are: orders, chat",
		"ann " + annsKey + " orders,":                          "line 1: name 2 in the list of streams is not a stream",
		"ann " + annsKey + "\nbob " + annsKey:                  "line 2: has the key of line 1",
		"# nobody":                                             "there is no key",
		"ann " + annsKey + "\nann " + strings.Repeat("k", 1e5): "line after 1 keys: ",
	} {
		file := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(file, []byte(list), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := access.Open(access.Options{Config: &config.Server{Auth: &config.Auth{Keys: config.Secret("file:" + file)}}, Streams: []string{"orders", "chat"}})
		if err == nil || !strings.Contains(err.Error(), "server.auth.keys: "+want) || strings.Contains(err.Error(), annsKey[:19]) {
			t.Errorf("%.80q: got %v, want %q and no key", list, err, want)
		}
	}
	for _, c := range []*config.Server{
		{Auth: &config.Auth{Keys: "env:ONCE_TEST_NO_SUCH_VARIABLE"}},
		{Admin: &config.Admin{Key: "env:ONCE_TEST_NO_SUCH_VARIABLE"}},
	} {
		if _, err := access.Open(access.Options{Config: c}); err == nil || !strings.Contains(err.Error(), "ONCE_TEST_NO_SUCH_VARIABLE") {
			t.Errorf("a secret that is not there: got %v, want an error with its place", err)
		}
	}
	t.Setenv("ONCE_TEST_ADMIN", "too short")
	if _, err := access.Open(access.Options{Config: &config.Server{Admin: &config.Admin{Key: "env:ONCE_TEST_ADMIN"}}}); err == nil || strings.Contains(err.Error(), "too short") {
		t.Errorf("a short key of operators: got %v, want an error without it", err)
	}
}

func TestTheConsoleAsksForTheKeyOfOperators(t *testing.T) {
	t.Setenv("ONCE_TEST_ADMIN", adminKey)
	basic := func(password string) string {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.SetBasicAuth("anybody", password)
		return "Authorization: " + r.Header.Get("Authorization")
	}
	both := &config.Server{Auth: &config.Auth{Keys: "file"}, Admin: &config.Admin{Key: "env:ONCE_TEST_ADMIN"}}
	w := newWorld(t, both, "ann "+annsKey+"\n")
	for _, path := range []string{"/console", "/console/", "/console/letters", "/console/static/style.css"} {
		w.is(path+" with the key", w.get(path, basic(adminKey)), 200, "")
		no := w.get(path)
		w.is(path+" without a key", no, 401, "#unauthorized")
		if got := no.header.Get("WWW-Authenticate"); !strings.HasPrefix(got, "Basic ") {
			t.Errorf("%s: a browser is asked for %q, want Basic", path, got)
		}
		w.is(path+" with a caller's key", w.get(path, basic(annsKey)), 401, "")
		w.is(path+" with a caller's bearer", w.get(path, "Authorization: Bearer "+annsKey), 401, "")
	}
	w.is("the API with the key of operators", w.get("/v1/streams/orders/groups", "Authorization: Bearer "+adminKey), 401, "")
	w.is("a path that only begins like the console's", w.get("/consoles"), 401, "")

	w = newWorld(t, withKeys(), "ann "+annsKey+"\n")
	w.is("a console without a key of operators", w.get("/console", "Authorization: Bearer "+annsKey), 404, "")
	w = newWorld(t, &config.Server{}, "")
	w.is("the console of a server without keys", w.get("/console"), 200, "")
	w = newWorld(t, &config.Server{Admin: &config.Admin{Key: "env:ONCE_TEST_ADMIN"}}, "")
	w.is("the console of a server with no other keys", w.get("/console"), 401, "")
	w.is("the API of a server with no other keys", w.get("/v1/streams"), 200, " may use orders,chat")
}

func TestOperatorsHaveSeveralKeysWhileOneIsRotated(t *testing.T) {
	const next = "adm-fedcba9876543210"
	file := filepath.Join(t.TempDir(), "admin")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(adminKey + "\n")
	a, err := access.Open(access.Options{Config: &config.Server{Admin: &config.Admin{Key: config.Secret("file:" + file)}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	for _, c := range []struct {
		text      string
		old, next bool
		mistake   string
	}{
		{adminKey + "\n", true, false, ""},
		{"# both\n\n" + adminKey + "\r\n " + next + " \n", true, true, ""},
		{adminKey + "\n" + next + "\ntoo short\n", true, true, "line 3"},
		{adminKey + " " + next, true, true, "line 1"},
		{"# " + next + "\n", true, true, "there is no key"},
		{next, false, true, ""},
	} {
		write(c.text)
		err := a.Reload()
		if (err != nil) != (c.mistake != "") || err != nil && (!strings.Contains(err.Error(), c.mistake) || strings.Contains(err.Error(), next)) {
			t.Errorf("%q: got %v, want an error with %q and without a key", c.text, err, c.mistake)
		}
		if old, also := a.Operator(adminKey), a.Operator(next); old != c.old || also != c.next {
			t.Errorf("%q: the old key is taken: %t, the new one: %t; want %t and %t", c.text, old, also, c.old, c.next)
		}
		if a.Operator("") || a.Operator(adminKey+"\n"+next) || a.Operator("# both") {
			t.Errorf("%q: a text that is no key is taken", c.text)
		}
	}
}

func TestTheSQSProtocolIsRefusedWhileCallersAreAuthenticatedWhateverItsPath(t *testing.T) {
	t.Setenv("ONCE_TEST_ADMIN", adminKey)
	w := newWorld(t, &config.Server{Auth: &config.Auth{Keys: "file"}, Admin: &config.Admin{Key: "env:ONCE_TEST_ADMIN"}}, "ann "+annsKey+"\n")
	for _, path := range []string{"/", "/healthz", "/console", "/metrics", "/v1/streams/orders/messages"} {
		w.is(path+" without a key", w.get(path, "X-Amz-Target: AmazonSQS.SendMessage"), 403, "AccessDeniedException")
		w.is(path+" with a key", w.get(path, "X-Amz-Target: AmazonSQS.SendMessage", "X-Api-Key: "+annsKey), 403, "AccessDeniedException")
	}
	w = newWorld(t, &config.Server{}, "")
	w.is("a server without keys", w.get("/", "X-Amz-Target: AmazonSQS.SendMessage"), 200, "")
}

func TestTheMetricsAreForReadersOfAllStreams(t *testing.T) {
	c := withKeys()
	c.Auth.Roles = map[string][]string{"ann": {"read"}, "bob": {"read"}, "cat": {"read:*a*", "read:orders"}}
	w := newWorld(t, c, "ann "+annsKey+"\nbob "+bobsKey+" chat\ncat "+annsNext+"\ndan "+adminKey+"\n")
	w.is("nobody", w.get("/metrics"), 401, "")
	w.is("ann", w.get("/metrics", "Authorization: Bearer "+annsKey), 200, "")
	for who, key := range map[string]string{"bob": bobsKey, "cat": annsNext, "dan": adminKey} {
		w.is(who, w.get("/metrics", "Authorization: Bearer "+key), 403, `"detail":"This key or token does not have the role read for all streams."`)
	}
}

func TestACallerOverItsRateGets429WithTheTimeToWaitAndOthersAreServed(t *testing.T) {
	w := newWorld(t, &config.Server{Auth: &config.Auth{Keys: "file"}, Rate: &config.Rate{PerSecond: 1, Burst: 3}}, "ann "+annsKey+"\nann "+annsNext+"\nbob "+bobsKey+"\n")
	limited := 0
	for i := range 200 { // a slow machine refills the bucket meanwhile
		key := annsKey
		if i%2 == 1 { // both keys of a principal draw from one bucket
			key = annsNext
		}
		got := w.get("/", "Authorization: Bearer "+key)
		if got.status == 429 {
			limited++
			if got.header.Get("Retry-After") != "1" || !strings.Contains(got.body, "#rate-limited") {
				t.Fatalf("got Retry-After %q and %s, want 1 and rate-limited", got.header.Get("Retry-After"), got.body)
			}
		} else if got.status != 200 || i == 0 && got.status != 200 {
			t.Fatalf("got %d, want 200 or 429", got.status)
		}
	}
	if limited < 100 {
		t.Errorf("%d of 200 requests were limited, want most of them", limited)
	}
	w.is("another caller", w.get("/", "Authorization: Bearer "+bobsKey), 200, "")
	w.is("the health", w.get("/healthz", "Authorization: Bearer "+annsKey), 200, "")
}

// TestARequestThatLastsEndsWithTheAccessOfItsCaller covers readers of logs, which stay for long.
func TestARequestThatLastsEndsWithTheAccessOfItsCaller(t *testing.T) {
	i := newIssuer(t, listen(t))
	c := withIssuer(i.url)
	c.Auth.Keys = "file"
	both := "ann " + annsKey + "\nbob " + bobsKey + "\n"
	var later, looks atomic.Int64
	w := newWorldBy(t, c, both, access.Options{
		Refresh: time.Millisecond, Check: 5 * time.Millisecond,
		Now: func() time.Time {
			looks.Add(1)
			return time.Now().Add(time.Duration(later.Load()))
		},
	})
	token := i.token(nil)
	w.is("a token", w.bearer(token), 200, "jwt:")
	// follow begins a request, and returns when it has begun
	follow := func(secret string) (ended chan struct{}) {
		began, ended := make(chan struct{}), make(chan struct{})
		handler := w.access.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(began)
			<-r.Context().Done()
			close(ended)
		}))
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+secret)
		go handler.ServeHTTP(httptest.NewRecorder(), r)
		<-began
		return ended
	}
	// checked returns when the access of the request with a token has been checked a few times
	checked := func() {
		t.Helper()
		before := looks.Load()
		eventually.Succeeds(t, func() error {
			if n := looks.Load() - before; n < 3 {
				return fmt.Errorf("%d checks of the request with a token", n)
			}
			return nil
		})
	}
	goesOn := func(name string, ended <-chan struct{}) {
		t.Helper()
		select {
		case <-ended:
			t.Errorf("%s has ended", name)
		default:
		}
	}
	ends := func(name string, ended <-chan struct{}) {
		t.Helper()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Errorf("%s goes on", name)
		}
	}
	expires, ann, bob := follow(token), follow(annsKey), follow(bobsKey)
	checked()
	goesOn("the request with the key of ann", ann)
	w.write("bob " + bobsKey + "\n")
	if err := w.access.Reload(); err != nil {
		t.Fatal(err)
	}
	ends("the request with a removed key", ann)
	checked()
	goesOn("the request with the key of bob", bob)
	goesOn("the request with a token", expires)
	later.Store(int64(2 * time.Hour))
	ends("the request with a token that has expired", expires)
	goesOn("the request with the key of bob", bob)
	w.write("bob " + bobsKey + " chat\n")
	next, err := w.access.Next(c, []string{"orders", "chat"})
	if err != nil {
		t.Fatal(err)
	}
	w.access.Replaced(next)
	ends("the request with a key that is now for fewer streams", bob)
}

func TestARequestOfAnOperatorEndsWithTheKeyOfOperators(t *testing.T) {
	file := filepath.Join(t.TempDir(), "admin")
	write := func(key string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(annsKey)
	w := newWorldBy(t, &config.Server{Admin: &config.Admin{Key: config.Secret("file:" + file)}}, "", access.Options{Check: time.Millisecond})
	began, ended := make(chan struct{}), make(chan struct{})
	handler := w.access.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		close(ended)
	}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/console", http.NoBody)
	r.SetBasicAuth("me", annsKey)
	go handler.ServeHTTP(httptest.NewRecorder(), r)
	<-began
	write(bobsKey)
	if err := w.access.Reload(); err != nil {
		t.Fatal(err)
	}
	<-ended
	if ctx.Err() != nil {
		t.Error("the request goes on for a minute")
	}
}
