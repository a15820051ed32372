package embedded_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/embedded"
	"github.com/effectively-once/once/internal/testkit/concurrent"
	"github.com/effectively-once/once/internal/testkit/memnet"
)

// Keys of the lists of these tests.
const (
	annKey   = "ann-0123456789abcdef"
	bobKey   = "bob-0123456789abcdef"
	adminKey = "adm-0123456789abcdef"
)

// A served system has the settings of once serve, and listens on a port of this machine.
type served struct {
	*running
	t   *testing.T
	dir string
	log *concurrent.Buffer
	net *memnet.Network // nil for the real one
}

// inMemory is a change for tests with virtual time: the system listens on no real socket.
func inMemory(o *embedded.Options, s *served) {
	o.Listen, o.DataDir, s.net = "", filepath.Join(s.dir, strings.Repeat("-", 120)), &memnet.Network{}
}

// serve starts a system with a configuration, in which DIR is a folder.
func serve(t *testing.T, text string, change ...func(*embedded.Options, *served)) *served {
	t.Helper()
	s := &served{t: t, dir: t.TempDir(), log: &concurrent.Buffer{}}
	s.file("keys", "ann "+annKey+"\nbob "+bobKey+" chat\n")
	s.file("admin", adminKey)
	c, err := config.Parse("test", []byte(strings.ReplaceAll(text, "DIR", s.dir)))
	if err != nil {
		t.Fatal(err)
	}
	address := make(chan string, 1)
	o := embedded.Options{
		Config: c, Server: c.Server, DataDir: filepath.Join(s.dir, "data"), Listen: "127.0.0.1:0", Ready: func(a string) { address <- a },
		Log: slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if c.Server != nil {
		o.AllowHosts, o.Console = c.Server.Hosts, embedded.Console(c.Server.Console)
	}
	for _, f := range change {
		f(&o, s)
	}
	system, err := embedded.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := system.Start(nil); err != nil {
		t.Fatal(errors.Join(err, system.Close()))
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- system.Run(ctx) }()
	s.running = &running{System: system, address: <-address, http: http.DefaultClient}
	closeServer := func() error { return nil }
	if s.net != nil {
		listener, server := s.net.Listen(), system.Server()
		go func() { _ = server.Serve(listener) }()
		s.address, s.http, closeServer = listener.Addr().String(), &http.Client{Transport: s.net.Transport()}, server.Close
	}
	s.client, err = client.New("http://"+s.address, client.Options{HTTP: s.http, Header: http.Header{"Authorization": {"Bearer " + annKey}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(closeServer(), <-done, system.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *served) file(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

type reply struct {
	status int
	header http.Header
	body   string
}

// call sends a request. Headers are NAME: VALUE; Host replaces that of the address.
func (s *served) call(method, path, body string, headers ...string) reply {
	s.t.Helper()
	got, err := s.try(method, path, strings.NewReader(body), headers...)
	if err != nil {
		s.t.Fatal(err)
	}
	return got
}

func (s *served) try(method, path string, body io.Reader, headers ...string) (reply, error) {
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.address+path, body)
	if err != nil {
		return reply{}, err
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Add(name, value)
	}
	h := http.Client{Transport: s.http.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := h.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(text)}, err
}

func (s *served) want(what string, got reply, status int, parts ...string) {
	s.t.Helper()
	if got.status != status {
		s.t.Errorf("%s: got %d %.300s, want %d", what, got.status, got.body, status)
	}
	for _, part := range parts {
		if !strings.Contains(got.body, part) {
			s.t.Errorf("%s: got %.300s, want a body with %q", what, got.body, part)
		}
	}
}

const (
	asAnn = "Authorization: Bearer " + annKey
	asBob = "X-Api-Key: " + bobKey
)

const closedShop = `
streams:
  orders: {log: {}}
  chat: {log: {}}
  work: {pool: {}}
server:
  auth: {keys: "file:DIR/keys", roles: {ann: [send, read, consume, operate], bob: [send, read, consume, operate], eve: [read]}}
  admin: {key: "file:DIR/admin"}
  hosts: [once.example.com]
  cors: {origins: ["https://app.example.com"]}
  console: write
`

// documented returns the routes of the OpenAPI document of a server that have a stream.
func (s *served) documented(key string) (routes []string) {
	s.t.Helper()
	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal([]byte(s.call("GET", "/openapi.json", "", key).body), &doc); err != nil {
		s.t.Fatal(err)
	}
	for path, item := range doc.Paths {
		if !strings.Contains(path, "{stream}") {
			continue
		}
		for method := range item {
			switch method {
			case "get", "put", "post", "delete":
				routes = append(routes, strings.ToUpper(method)+" "+path)
			}
		}
	}
	if len(routes) < 20 {
		s.t.Fatalf("%d routes, want those of the whole API", len(routes))
	}
	return routes
}

// routesOf returns the method and path of each route for a stream.
func (s *served) routesOf(stream string) (out [][2]string) {
	s.t.Helper()
	for _, route := range s.documented(asAnn) {
		method, path, _ := strings.Cut(route, " ")
		out = append(out, [2]string{method, strings.NewReplacer("{stream}", stream, "{group}", "g", "{name}", "n", "{id}", "i", "{source}", "s").Replace(path)})
	}
	for _, method := range []string{"GET", "HEAD", "PUT", "POST", "DELETE"} {
		out = append(out, [2]string{method, "/v1/stream/" + stream + "/g"})
	}
	return out
}

func TestNoRouteIsServedWithoutAKeyOrForAnotherStream(t *testing.T) {
	t.Parallel()
	s := serve(t, closedShop)
	for _, rt := range s.routesOf("orders") {
		method, path := rt[0], rt[1]
		s.want(method+" "+path+" without a key", s.call(method, path, "{}"), 401)
		s.want(method+" "+path+" with a key for another stream", s.call(method, path, "{}", asBob), 403)
	}
	for _, rt := range s.routesOf("chat") {
		if got := s.call(rt[0], rt[1], "{}", asBob); got.status == 401 || got.status == 403 && rt[0] != "HEAD" {
			t.Errorf("%s %s with a key for the stream: got %d %s, want it to be served", rt[0], rt[1], got.status, got.body)
		}
	}
	for _, rt := range s.routesOf("nothing") {
		s.want(rt[0]+" "+rt[1]+" with a key for other streams", s.call(rt[0], rt[1], "{}", asBob), 403)
	}
	// Other spellings of a path are the same stream, or no route.
	for _, path := range []string{
		"/v1/streams/%6frders/groups", "/v1/streams//orders/groups", "/v1/streams/chat/../orders/groups", "/v1/streams/chat/%2e%2e/orders/groups", "/v1/streams/chat%2f..%2forders/groups",
		"/v1/streams/orders/groups/a/b/log", "/v1/stream/orders/../orders/g", "/v1/stream/%6frders/g", "/v1/stream/chat%2f..%2forders/g", "/v1/stream//orders/g", "//v1/streams/orders/groups", "/v1/streams/orders/groups/", "/v1/streams/ORDERS/groups",
	} {
		if got := s.call("GET", path, "", asBob); got.status != 403 && got.status != 404 {
			t.Errorf("GET %s with a key for another stream: got %d %.200s, want 403 or 404", path, got.status, got.body)
		}
	}
	for _, path := range []string{"/", "/metrics", "/openapi.json", "/v1", "/debug/pprof/", "/healthz/x", "/healthz/", "/HEALTHZ"} {
		s.want("GET "+path+" without a key", s.call("GET", path, ""), 401)
	}
	s.want("the health without a key", s.call("GET", "/healthz", ""), 200)
	s.want("a message that pretends to be one of SQS", s.call("POST", "/healthz", `{"QueueUrl":"orders","MessageBody":"x"}`, "X-Amz-Target: AmazonSQS.SendMessage"), 403, "AccessDeniedException")
	s.want("an unknown stream, for a caller of some", s.call("GET", "/v1/streams/nothing/groups", "", asBob), 403)
	if got := s.call("GET", "/v1/streams/nothing/groups", "", asAnn); got.status != 404 || !strings.Contains(got.body, "orders") {
		t.Errorf("an unknown stream, for a caller of all: got %d %s, want 404 with the streams", got.status, got.body)
	}
}

func TestTheSameKeyOfTwoPrincipalsIsTwoMessagesAndNeitherSeesTheOther(t *testing.T) {
	t.Parallel()
	s := serve(t, closedShop)
	s.file("keys", "ann "+annKey+"\nbob "+bobKey+"\n")
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	post := func(key, body string) reply {
		return s.call("POST", "/v1/streams/orders/messages", body, key, "Idempotency-Key: pay", "Once-Group: g", "Prefer: wait=10")
	}
	s.want("ann's message", post(asAnn, "1"), 200)
	if got := s.call("GET", "/v1/streams/orders/messages/pay", "", asBob); got.status != 404 {
		t.Errorf("ann's message, asked for by bob: got %d %s, want 404", got.status, got.body)
	}
	if got := post(asBob, "2"); got.status != 200 || got.header.Get("Idempotent-Replayed") != "false" {
		t.Errorf("bob's message under the same key, with other content: got %d, replayed %q, want 200 and false", got.status, got.header.Get("Idempotent-Replayed"))
	}
	if got := post(asAnn, "1"); got.status != 200 || got.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("ann's message again: got %d, replayed %q, want 200 and true", got.status, got.header.Get("Idempotent-Replayed"))
	}
	s.want("ann's message with other content", post(asAnn, "2"), 422)
	request := "/v1/streams/orders/requests/r"
	s.want("ann's one-time request", s.call("PUT", request, "1", asAnn), 201)
	for _, method := range []string{"GET", "POST", "DELETE"} {
		s.want(method+" of ann's request by bob", s.call(method, request, "", asBob), 404)
	}
	s.want("ann's request", s.call("GET", request, "", asAnn), 200)
	for key, body := range map[string]string{asAnn: "1", asBob: "2"} {
		line := fmt.Sprintf(`{"key":"line","body":%s}`+"\n", body)
		got := s.call("POST", "/v1/streams/orders/batch", line, key, "Content-Type: application/x-ndjson")
		if got.status != 200 || strings.Contains(got.body, "key-reuse") {
			t.Errorf("a batch: got %d %s, want 200 and one message for each principal", got.status, got.body)
		}
	}
	durable := "/v1/stream/orders/live"
	s.want("a stream of the protocol", s.call("PUT", durable, "", asAnn, "Content-Type: text/plain"), 201)
	for _, key := range []string{asAnn, asBob} { // both number from 0
		s.want("an append", s.call("POST", durable, "x", key, "Content-Type: text/plain", "Producer-Id: p", "Producer-Epoch: 0", "Producer-Seq: 0"), 200)
	}
	log := s.call("GET", "/v1/streams/orders/groups/g/log", "", asBob).body
	if strings.Contains(log, "key:ann") || !strings.Contains(log, "key:bob") {
		t.Errorf("the log shows %s, want bob's principal to bob and no other", log)
	}
}

func TestAnOperatorFindsTheMessageOfAPrincipalByItsIDAndByItsHash(t *testing.T) {
	t.Parallel()
	s := serve(t, closedShop)
	s.want("ann's message", s.call("POST", "/v1/streams/orders/messages", "1", asAnn, "Idempotency-Key: pay", "Once-Group: g", "Prefer: wait=10"), 200)
	byID, err := s.Message(t.Context(), "orders", "pay")
	if err != nil || byID.Group != "g" || byID.Status != "done" {
		t.Errorf("by its id: got %+v, %v, want the message that is done in g", byID, err)
	}
	m := record.Message{Principal: "key:ann", Stream: "orders", ID: "pay"}
	byHash, err := s.ByHash(t.Context(), admin.HashOptions{Hash: m.Hash()})
	if err != nil || byHash.Group != "g" {
		t.Errorf("by its hash: got %+v, %v, want the message", byHash, err)
	}
	if _, err := s.Message(t.Context(), "orders", "other"); !errors.Is(err, admin.ErrNotFound) {
		t.Errorf("another id: got %v, want that there is none", err)
	}
}

func TestARevokedKeyIsRefusedOnAnOpenConnection(t *testing.T) {
	t.Parallel()
	s := serve(t, closedShop)
	s.want("before", s.call("GET", "/v1/streams/orders/groups", "", asAnn), 200)
	s.file("keys", "bob "+bobKey+"\n")
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	s.want("after", s.call("GET", "/v1/streams/orders/groups", "", asAnn), 401)
}

func TestAWebPageReachesAServerOnlyFromAnAllowedOriginUnderAnAllowedHost(t *testing.T) {
	t.Parallel()
	s := serve(t, closedShop)
	messages := "/v1/streams/orders/messages"
	for _, c := range []struct {
		name, method, path string
		headers            []string
		status             int
		origin             string // that may read the answer
	}{
		{"a program", "POST", messages, []string{asAnn, "Idempotency-Key: a"}, 202, ""},
		{"under an allowed name", "POST", messages, []string{asAnn, "Idempotency-Key: a", "Host: once.example.com"}, 202, ""},
		{"under a foreign name", "POST", messages, []string{asAnn, "Idempotency-Key: b", "Host: evil.example"}, 403, ""},
		{"a read under a foreign name", "GET", "/v1/streams/orders/groups", []string{asAnn, "Host: evil.example"}, 403, ""},
		{"the health under a foreign name", "GET", "/healthz", []string{"Host: evil.example:80"}, 403, ""},
		{"a name that begins like an address", "GET", "/healthz", []string{"Host: 127.0.0.1.evil.example"}, 403, ""},
		{"a page of the app", "POST", messages, []string{asAnn, "Idempotency-Key: c", "Origin: https://app.example.com", "Sec-Fetch-Site: cross-site"}, 202, "https://app.example.com"},
		{"a read by the app", "GET", "/v1/streams/orders/groups", []string{asAnn, "Origin: https://app.example.com", "Sec-Fetch-Site: cross-site"}, 200, "https://app.example.com"},
		{"a page of the app without a key", "GET", "/v1/streams/orders/groups", []string{"Origin: https://app.example.com"}, 401, "https://app.example.com"},
		{"a page of another origin", "POST", messages, []string{asAnn, "Idempotency-Key: d", "Origin: https://evil.example", "Sec-Fetch-Site: cross-site"}, 403, ""},
		{"a page without Fetch metadata", "POST", messages, []string{asAnn, "Idempotency-Key: d", "Origin: https://evil.example"}, 403, ""},
		{"a page of a file", "POST", messages, []string{asAnn, "Idempotency-Key: d", "Origin: null", "Sec-Fetch-Site: cross-site"}, 403, ""},
		{"the app without TLS", "POST", messages, []string{asAnn, "Idempotency-Key: d", "Origin: http://app.example.com"}, 403, ""},
		{"an origin that ends like the app", "POST", messages, []string{asAnn, "Idempotency-Key: d", "Origin: https://evil-app.example.com"}, 403, ""},
		{"an origin that begins like the app", "POST", messages, []string{asAnn, "Idempotency-Key: d", "Origin: https://app.example.com.evil.example"}, 403, ""},
		{"a read by another origin", "GET", "/v1/streams/orders/groups", []string{asAnn, "Origin: https://evil.example"}, 200, ""}, // which the browser does not show to it
	} {
		got := s.call(c.method, c.path, "1", c.headers...)
		s.want(c.name, got, c.status)
		if origin := got.header.Get("Access-Control-Allow-Origin"); origin != c.origin || got.header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: the origin %q may read the answer, want %q, and no cookies", c.name, origin, c.origin)
		}
	}
	read := s.call("GET", "/v1/streams/orders/groups", "", asAnn, "Origin: https://app.example.com")
	for _, name := range []string{"Idempotent-Replayed", "Once-Reply", "Once-Next", "Once-End", "Retry-After"} {
		if exposed := read.header.Get("Access-Control-Expose-Headers"); !strings.Contains(exposed, name) {
			t.Errorf("the app may read the headers %q, want %s among them", exposed, name)
		}
	}
	preflight := func(origin, path string) reply {
		return s.call("OPTIONS", path, "", "Origin: "+origin, "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: authorization,idempotency-key")
	}
	got := preflight("https://app.example.com", messages)
	if got.status/100 != 2 || got.header.Get("Access-Control-Allow-Origin") != "https://app.example.com" || !strings.Contains(got.header.Get("Access-Control-Allow-Headers"), "authorization") {
		t.Errorf("a preflight of the app: got %d %v, want permission for its headers, without a key", got.status, got.header)
	}
	for name, got := range map[string]reply{
		"of another origin":          preflight("https://evil.example", messages),
		"of the app for the console": preflight("https://app.example.com", "/console/send"),
	} {
		if got.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("a preflight %s: got %v, want no permission", name, got.header)
		}
	}
}

func TestTheConsoleOfAServerIsForOperatorsAndTakesNoFormOfAnotherPage(t *testing.T) {
	t.Parallel()
	s := serve(t, closedShop)
	const operator = "Authorization: Basic eDphZG0tMDEyMzQ1Njc4OWFiY2RlZg==" // x:adminKey
	s.want("without the key", s.call("GET", "/console", ""), 401)
	s.want("with a caller's key", s.call("GET", "/console", "", asAnn), 401)
	s.want("with the key", s.call("GET", "/console", "", operator), 200, "<html")
	s.want("under a foreign name", s.call("GET", "/console", "", operator, "Host: evil.example"), 403)
	form := "application/x-www-form-urlencoded"
	page := s.call("GET", "/console/send", "", operator).body
	_, rest, _ := strings.Cut(page, `name="token" value="`)
	token, _, ok := strings.Cut(rest, `"`)
	if !ok {
		t.Fatalf("no token in the form: %s", page)
	}
	values := "stream=orders&new=k1&body=x&token="
	s.want("a form", s.call("POST", "/console/send", values+token, operator, "Content-Type: "+form), 200)
	s.want("a form without the token", s.call("POST", "/console/send", values, operator, "Content-Type: "+form), 403)
	s.want("a form without the key", s.call("POST", "/console/send", values+token, "Content-Type: "+form), 401)
	for _, origin := range []string{"https://evil.example", "https://app.example.com"} { // pages of the app may call the API, not the console
		s.want("a form of "+origin, s.call("POST", "/console/send", values+token, operator, "Content-Type: "+form, "Origin: "+origin, "Sec-Fetch-Site: cross-site"), 403)
	}
	if got := s.call("GET", "/console/send", "", operator, "Origin: https://app.example.com"); got.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a page of the app may read the console: %v", got.header)
	}
}

// dial opens a connection and writes text.
func (s *served) dial(text string) net.Conn {
	s.t.Helper()
	dial := new(net.Dialer).DialContext
	if s.net != nil {
		dial = s.net.Dial
	}
	c, err := dial(s.t.Context(), "tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	if _, err := io.WriteString(c, text); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// ended waits until the server has closed a connection, and returns what it has sent.
func (s *served) ended(c net.Conn, within time.Duration) string {
	s.t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil && !errors.Is(err, io.ErrClosedPipe) { // in memory: it is closed
		s.t.Fatal(err)
	}
	text, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.t.Errorf("the server has not closed the connection after %v", within)
	}
	return string(text)
}
