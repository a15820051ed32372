package admin_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/testkit/memnet"
)

const (
	oldKey = "old-key-of-an-operator"
	newKey = "new-key-of-an-operator"
)

func isOld(key string) bool { return key == oldKey }

// operators serves an Admin to operators with oldKey, with TLS.
func operators(t *testing.T, a admin.Admin) *httptest.Server {
	t.Helper()
	server := httptest.NewTLSServer(admin.Guard(isOld, admin.Remote(a)))
	t.Cleanup(server.Close)
	return server
}

func dial(t *testing.T, server *httptest.Server, key string) *admin.Client {
	t.Helper()
	authorities := x509.NewCertPool()
	authorities.AddCert(server.Certificate())
	client, err := admin.DialRemote(server.URL, admin.RemoteOptions{Key: key, Authorities: authorities})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestAnOperatorOnAnotherMachineGetsTheSameAnswers(t *testing.T) {
	c := &canned{letters: []admin.DeadLetter{{Queue: "dead", Reason: "gone", ID: "x"}}}
	server := operators(t, c)
	client := dial(t, server, oldKey)
	o := admin.DropOptions{Reason: "gone", By: "ann"}
	for n := range 2000 { // more than a URL can hold
		o.MessageIDs = append(o.MessageIDs, fmt.Sprintf("0195e1f2-0000-7000-8000-%012d", n))
	}
	got, err := client.Drop(t.Context(), o)
	if err != nil || got.Dropped != 1 || len(got.Letters) != 1 {
		t.Errorf("got %+v, %v; want one letter dropped", got, err)
	}
	if d := cmp.Diff(o, c.asked); d != "" {
		t.Errorf("the server was asked for something else: %s", d)
	}
	c.err = fmt.Errorf("group chat/x: %w", admin.ErrNotFound)
	if _, err := client.Group(t.Context(), "chat", "x"); !errors.Is(err, admin.ErrNotFound) || err.Error() != "group chat/x: not found" {
		t.Errorf("got %v, want that it is not found", err)
	}
}

// An answer is one that was read.
type answer struct {
	status int
	header http.Header
	body   string
}

func send(t *testing.T, server *httptest.Server, method, path, body string, header http.Header) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	if host := header.Get("Host"); host != "" {
		r.Host = host
	}
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(text)}
}

func with(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func TestOnlyTheKeyOfAnOperatorOpensTheAdminAPI(t *testing.T) {
	for name, h := range map[string]http.Header{
		"no key":                 with(),
		"an empty key":           with("Authorization", "Bearer "),
		"another key":            with("Authorization", "Bearer "+newKey),
		"the beginning":          with("Authorization", "Bearer "+oldKey[:20]),
		"the key and more":       with("Authorization", "Bearer "+oldKey+"x"),
		"another scheme":         with("Authorization", "Token "+oldKey),
		"a password":             with("Authorization", "Basic b25jZTpvbGQta2V5LW9mLWFuLW9wZXJhdG9y"),
		"no scheme":              with("Authorization", oldKey),
		"another header":         with("X-Api-Key", oldKey),
		"two keys":               with("Authorization", "Bearer "+oldKey, "Authorization", "Bearer "+newKey),
		"a page of a browser":    with("Origin", "https://evil.example", "Content-Type", "application/x-www-form-urlencoded", "Cookie", "key="+oldKey),
		"a name that is rebound": with("Host", "evil.example:9444", "Origin", "https://evil.example:9444"),
	} {
		t.Run(name, func(t *testing.T) {
			c := &canned{}
			server := operators(t, c)
			for _, call := range []string{
				"GET /admin/v1/stats", "GET /admin/v1/dead-letters?content=-1&key=" + oldKey, "POST /admin/v1/drop?reason=gone", "POST /admin/v1/redrive", "POST /admin/v1/skip", "OPTIONS /admin/v1/drop",
				"GET /admin/v1/", "GET /v1/streams/orders/groups", "GET /healthz", "GET /",
			} {
				method, path, _ := strings.Cut(call, " ")
				got := send(t, server, method, path, "", h)
				if got.status != http.StatusUnauthorized || got.header.Get("WWW-Authenticate") == "" || strings.Contains(got.body, oldKey) {
					t.Errorf("%s: got %d and %s, want 401", call, got.status, got.body)
				}
				if allow := got.header.Get("Access-Control-Allow-Origin"); allow != "" {
					t.Errorf("%s: pages of %s may read the answer", call, allow)
				}
			}
			if c.asked != nil {
				t.Errorf("the system was asked for %+v", c.asked)
			}
		})
	}
}

func TestARequestThatIsNotUnderstoodDoesNothing(t *testing.T) {
	form, long := "application/x-www-form-urlencoded", strings.Repeat("x", 2<<20)
	for name, c := range map[string]struct{ call, kind, body string }{
		"a misspelt parameter":            {"POST /drop?reason=gone&straem=orders", "", ""},
		"a parameter twice":               {"POST /drop?reason=gone&stream=a&stream=b", "", ""},
		"a parameter in URL and form":     {"POST /drop?reason=gone&stream=a", form, "stream=b"},
		"a form that is cut off":          {"POST /drop?reason=gone", form, "message_id=" + long},
		"a body that is JSON":             {"POST /drop?reason=gone", "application/json", `{"id":"x"}`},
		"a body in parts":                 {"POST /drop?reason=gone", "multipart/form-data; boundary=x", "--x--"},
		"a body without a type":           {"POST /drop?reason=gone", "", "id=x"},
		"half an escape":                  {"POST /drop?reason=gone&id=%zz", "", ""},
		"nothing selected":                {"POST /drop?stream=orders", "", ""},
		"a huge list":                     {"GET /groups?stream=chat&limit=2000000000", "", ""},
		"a list longer than any number":   {"GET /dead-letters?limit=99999999999999999999", "", ""},
		"a negative list":                 {"GET /dead-letters?limit=-1", "", ""},
		"many whole bodies":               {"GET /dead-letters?limit=10000&content=-1", "", ""},
		"bodies of any length":            {"GET /dead-letters?limit=10000&content=2000000000", "", ""},
		"a number of an effect, negative": {"POST /skip?stream=s&group=g&number=-1", "", ""},
		"a method that changes by GET":    {"GET /drop?reason=gone", "", ""},
		"an operation that is not there":  {"POST /shutdown", "", ""},
		"a way out":                       {"POST /../../drop?reason=gone", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := &canned{}
			server := operators(t, a)
			method, path, _ := strings.Cut(c.call, " ")
			h := with("Authorization", "bearer "+oldKey)
			if c.kind != "" {
				h.Set("Content-Type", c.kind)
			}
			got := send(t, server, method, "/admin/v1"+path, c.body, h)
			if got.status < 400 || got.status >= 500 || a.asked != nil || len(got.body) > 500 {
				t.Errorf("got %d and %s, and the system was asked for %+v; want a refusal", got.status, got.body, a.asked)
			}
		})
	}
}

func TestNobodyWithoutAKeyHoldsAConnection(t *testing.T) {
	server := operators(t, &canned{})
	for name, request := range map[string]string{
		"a body that never comes": "POST /admin/v1/drop HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n",
		"no body":                 "GET /admin/v1/stats HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		conn := rawConnection(t, server)
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusUnauthorized || !resp.Close {
			t.Errorf("%s: got %s, connection closed %v; want 401 and the end of the connection", name, resp.Status, resp.Close)
		}
		_ = resp.Body.Close()
	}
}

func rawConnection(t *testing.T, server *httptest.Server) net.Conn {
	t.Helper()
	transport := server.Client().Transport.(*http.Transport)
	config := transport.TLSClientConfig.Clone()
	config.NextProtos, config.ServerName = nil, "example.com"
	conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// slowAdmin holds each call until it may end.
type slowAdmin struct {
	canned
	running atomic.Int32
	end     chan struct{}
}

func (s *slowAdmin) Stats(ctx context.Context) (admin.Stats, error) {
	s.running.Add(1)
	select {
	case <-s.end:
		return admin.Stats{}, nil
	case <-ctx.Done():
		return admin.Stats{}, ctx.Err()
	}
}

func TestTooManyOperationsAreToldToComeLater(t *testing.T) {
	slow := &slowAdmin{end: make(chan struct{})}
	server := operators(t, slow)
	client := dial(t, server, oldKey)
	errs := make(chan error, 100)
	for range 33 {
		go func() { _, err := client.Stats(t.Context()); errs <- err }()
	}
	if err := <-errs; err == nil || !strings.Contains(err.Error(), "32 operations are running") {
		t.Errorf("of 33 calls, got %v; want one to be told that 32 are running", err)
	}
	close(slow.end)
	for range 32 {
		if err := <-errs; err != nil {
			t.Errorf("got %v, want an answer", err)
		}
	}
}

func TestAnOperationMayTakeLongerThanARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowAdmin{end: make(chan struct{})}
		listener := new(memnet.Network).Listen()
		server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: admin.Guard(isOld, admin.Remote(slow)), ReadTimeout: time.Second, WriteTimeout: time.Second}}
		server.StartTLS()
		defer server.Close()
		client := dial(t, server, oldKey)
		client.Through(listener.Dial)
		result := make(chan error, 1)
		go func() { _, err := client.Stats(t.Context()); result <- err }()
		time.Sleep(time.Minute) // both times are over
		if slow.running.Load() == 0 {
			t.Error("the operation does not run")
		}
		close(slow.end)
		if err := <-result; err != nil {
			t.Errorf("got %v, want the answer of the operation", err)
		}
	})
}

func TestAClientIsToldWhatToDo(t *testing.T) {
	secure := operators(t, &canned{})
	plain := httptest.NewServer(admin.Guard(isOld, admin.Remote(&canned{})))
	defer plain.Close()
	var leaked atomic.Bool
	public := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { problem.New(problem.UnknownRoute, "").Write(w, "") }))
	defer public.Close()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }))
	defer other.Close()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { leaked.Store(r.Header.Get("Authorization") != "") }))
	defer elsewhere.Close()
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}))
	defer away.Close()
	closed := httptest.NewServer(nil)
	closed.Close()
	port := func(s *httptest.Server) string { u, _ := url.Parse(s.URL); return u.Port() }

	for name, c := range map[string]struct {
		address, key string
		kind         error
		text         string
	}{
		"no key":                        {plain.URL, "", admin.ErrKey, "needs the key of an operator"},
		"another key":                   {plain.URL, newKey, admin.ErrKey, "does not know this key: give one of admin.key"},
		"the public address":            {public.URL, oldKey, admin.ErrAddress, "is the address of the public HTTP API: give the one of admin.listen"},
		"a web server":                  {other.URL, oldKey, admin.ErrAddress, "is not the address of an admin API: it answers 200 OK"},
		"a server that leads elsewhere": {away.URL, oldKey, admin.ErrAddress, "is not the address of an admin API: it answers 307"},
		"an unknown authority":          {secure.URL, oldKey, admin.ErrAway, "name the authority's certificate with --ca-file, or in SSL_CERT_FILE"},
		"http to a server with TLS":     {"http://127.0.0.1:" + port(secure), oldKey, admin.ErrAddress, "use https://"},
		"https to a server without TLS": {"https://127.0.0.1:" + port(plain), oldKey, admin.ErrAddress, "does not speak TLS"},
		"nothing":                       {closed.URL, oldKey, admin.ErrAway, "no admin API answers at " + closed.URL + ": dial tcp"},
		"http to another machine":       {"http://once.example:9444", oldKey, admin.ErrAddress, "would be sent to once.example:9444 without encryption: use https://"},
		"a path":                        {"https://once.example/admin", oldKey, admin.ErrAddress, "without a path"},
		"a password in the address":     {"https://a:b@once.example", oldKey, admin.ErrAddress, "must be https://HOST:PORT"},
		"a host without a scheme":       {"once.example:9444", oldKey, admin.ErrAddress, "must be https://HOST:PORT"},
	} {
		t.Run(name, func(t *testing.T) {
			client, err := admin.DialRemote(c.address, admin.RemoteOptions{Key: c.key})
			if err == nil {
				_, err = client.Stats(t.Context())
			}
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), oldKey) {
				t.Errorf("got  %v\nwant %v with %q", err, c.kind, c.text)
			}
		})
	}
	if leaked.Load() {
		t.Error("the key was sent to another server")
	}
}
