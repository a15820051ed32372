package embedded_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/system/embedded"
	"github.com/effectively-once/once/internal/testkit/eventually"
)

const reloadedShop = `
streams: {orders: {log: {}}, chat: {log: {}}}
server:
  tls: {cert: DIR/tls.crt, key: DIR/tls.key}
  hosts: [old.example.com]
  auth: {keys: "file:DIR/keys", oidc: {issuer: "ISSUER", audience: once, roles: once_roles}, roles: {ann: [send, read], bob: [read], cat: [read]}}
  rate: {perSecond: 1, burst: 100000}
  cors: {origins: ["https://old.example.com"]}
  console: read
  admin: {listen: "127.0.0.1:0", key: "file:DIR/admin"}
`

// A probe is a request whose answer a reload changes.
type probe struct {
	name          string
	ask           func() string
	before, after string
}

// keptAlive is a client with one connection to each address, and the number of connections that it
// has made. A transport of net/http is not one: it gives up a connection if its goroutine has not
// reported within 50 ms that a request is written.
type keptAlive struct {
	s    *served
	open map[string]*bufio.ReadWriter
	made int
}

func (s *served) keepAlive() *keptAlive {
	return &keptAlive{s: s, open: map[string]*bufio.ReadWriter{}}
}

// get returns the answer to a GET of a URL with headers.
func (k *keptAlive) get(url string, headers ...string) reply {
	k.s.t.Helper()
	r, err := http.NewRequestWithContext(k.s.t.Context(), http.MethodGet, url, nil)
	if err != nil {
		k.s.t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Add(name, value)
	}
	at := r.URL.Host
	if k.open[at] == nil {
		conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(k.s.t.Context(), "tcp", at)
		if err != nil {
			k.s.t.Fatal(err)
		}
		k.s.t.Cleanup(func() { _ = conn.Close() })
		k.open[at] = bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn))
		k.made++
	}
	if err := errors.Join(r.Write(k.open[at]), k.open[at].Flush()); err != nil {
		k.s.t.Fatal(err)
	}
	answer, err := http.ReadResponse(k.open[at].Reader, r)
	if err != nil {
		k.s.t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		k.s.t.Fatal(err)
	}
	if answer.Close {
		delete(k.open, at)
	}
	return reply{answer.StatusCode, answer.Header, string(body)}
}

// tokens starts an issuer, and returns its URL and a function that makes tokens for an audience.
func tokens(t *testing.T) (url string, token func(audience string) string) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/keys") {
			_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: secret.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"}}})
			return
		}
		_, _ = fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, server.URL, server.URL+"/keys")
	}))
	t.Cleanup(server.Close)
	return server.URL, func(audience string) string {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: secret}, (&jose.SignerOptions{}).WithHeader("kid", "k"))
		if err != nil {
			t.Fatal(err)
		}
		text, err := jwt.Signed(signer).Claims(jwt.Claims{Issuer: server.URL, Subject: "tom", Audience: jwt.Audience{audience}, Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour))}).Claims(map[string]any{"once_roles": "openid read"}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
}

// begin sends the head of a message and half of its body, and returns when the server reads the
// body. finish sends the rest, and returns the answer.
func (s *served) begin(id string) (finish func() string) {
	s.t.Helper()
	d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	c, err := d.DialContext(s.t.Context(), "tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	write := func(text string) {
		s.t.Helper()
		if _, err := io.WriteString(c, text); err != nil {
			s.t.Fatal(err)
		}
	}
	write("POST /v1/streams/orders/messages HTTP/1.1\r\nHost: old.example.com\r\nConnection: close\r\n" + asAnn +
		"\r\nIdempotency-Key: " + id + "\r\nContent-Type: text/plain\r\nExpect: 100-continue\r\nContent-Length: 8\r\n\r\n")
	line := make([]byte, len("HTTP/1.1 100 Continue\r\n\r\n"))
	if _, err := io.ReadFull(c, line); err != nil || !strings.HasPrefix(string(line), "HTTP/1.1 100") {
		s.t.Fatalf("%s: got %q, %v, want that the server reads the body", id, line, err)
	}
	write("half")
	return func() string {
		s.t.Helper()
		write("half")
		text := s.ended(c, time.Minute)
		return text[:min(len(text), len("HTTP/1.1 202"))]
	}
}

// TestAReloadChangesEachSettingOfTheServerForTheNextRequest asks before and after each change, and
// after reloads that are refused, over connections that stay open. Requests under way end as they
// began.
func TestAReloadChangesEachSettingOfTheServerForTheNextRequest(t *testing.T) {
	const (
		nextKey   = "nxt-0123456789abcdef"
		catKey    = "cat-0123456789abcdef"
		nextAdmin = "adm-fedcba9876543210"
	)
	issuer, token := tokens(t)
	t.Setenv("ONCE_TEST_KEYS", "ann "+nextKey+"\ncat "+catKey+"\n")
	t.Setenv("ONCE_TEST_ADMIN", nextAdmin)
	base := strings.ReplaceAll(reloadedShop, "ISSUER", issuer)
	keys := "ann " + annKey + "\nbob " + bobKey + " chat\ncat " + catKey + "\n"
	s := serve(t, base, func(o *embedded.Options, s *served) {
		o.AllowHosts = nil // those of the file are read at each reload
		s.file("keys", keys)
		for serial, name := range []string{"tls", "next"} {
			cert, key := pair(t, int64(serial))
			s.file(name+".crt", cert)
			s.file(name+".key", key)
		}
	})
	base = strings.ReplaceAll(base, "DIR", s.dir)
	found := regexp.MustCompile(`ready for operators" url=(\S+)`).FindStringSubmatch(s.log.String())
	if found == nil {
		t.Fatalf("the log does not name the address for operators:\n%s", s.log.String())
	}
	kept, operators := s.keepAlive(), s.keepAlive()
	messages, console := "https://"+s.address+"/v1/streams/orders/groups", "https://"+s.address+"/console"
	status := func(name, url, before, after string, headers ...string) probe {
		return probe{name, func() string { return fmt.Sprint(kept.get(url, headers...).status) }, before, after}
	}
	withToken := func(audience, before, after string) probe {
		header := "Authorization: Bearer " + token(audience)
		return probe{"a token for " + audience, func() (got string) {
			eventually.Succeeds(t, func() error { // the issuer may not have answered yet
				if got = fmt.Sprint(kept.get(messages, header).status); got == "503" {
					return errors.New("the answer is 503")
				}
				return nil
			})
			return got
		}, before, after}
	}
	operator := func(key, before, after string) probe {
		return probe{"the admin API with the key " + key[:7], func() string {
			r := operators.get(found[1]+"/admin/v1/stats", "Authorization: Bearer "+key)
			return fmt.Sprint(r.status)
		}, before, after}
	}
	page := func(origin, before, after string) probe {
		return probe{"a page of " + origin, func() string {
			return kept.get(messages, asAnn, "Origin: "+origin).header.Get("Access-Control-Allow-Origin")
		}, before, after}
	}
	const asNext = "Authorization: Bearer " + nextKey
	basic := func(key string) string {
		r := http.Request{Header: http.Header{}}
		r.SetBasicAuth("me", key)
		return "Authorization: " + r.Header.Get("Authorization")
	}
	for n, c := range []struct {
		name     string
		from, to string            // in the configuration
		files    map[string]string // that are written before the reload
		changed  string
		probes   []probe
	}{
		{"rate", "burst: 100000", "burst: 1", nil, "server.rate.burst", []probe{{"many requests", func() string {
			for range 100 { // the bucket gets one token in a second
				if got := kept.get(messages, "X-Api-Key: "+catKey); got.status != http.StatusOK {
					return fmt.Sprint(got.status)
				}
			}
			return "200"
		}, "200", "429"}}},
		{"origins", `["https://old`, `["https://new`, nil, "server.cors.origins", []probe{
			page("https://old.example.com", "https://old.example.com", ""), page("https://new.example.com", "", "https://new.example.com"),
		}},
		{"hosts", "[old.", "[new.", nil, "server.hosts", []probe{
			status("the old host", messages, "200", "403", asAnn, "Host: old.example.com"), status("the new host", messages, "403", "200", asAnn, "Host: new.example.com"),
		}},
		{"the contents of keys", "", "", map[string]string{"keys": "ann " + nextKey + "\nbob " + bobKey + "\n"}, "", []probe{
			status("the old key", messages, "200", "401", asAnn), status("the new key", messages, "401", "200", asNext), status("a key with more streams", messages, "403", "200", asBob),
		}},
		{"the place of keys", "file:" + s.dir + "/keys", "env:ONCE_TEST_KEYS", nil, "server.auth.keys", []probe{
			status("the old key", messages, "200", "401", asAnn), status("the new key", messages, "401", "200", asNext),
		}},
		{"the roles of a key", "ann: [send, read]", "ann: [send]", nil, "server.auth.roles.ann", []probe{
			status("a key that loses a role", messages, "200", "403", asAnn), status("another key", messages, "200", "200", "X-Api-Key: "+catKey),
		}},
		{"the roles of tokens", "roles: once_roles", "roles: other_roles", nil, "server.auth.oidc.roles", []probe{withToken("once", "200", "403")}},
		{"the issuer", "audience: once", "audience: next", nil, "server.auth.oidc.audience", []probe{
			withToken("once", "200", "401"), withToken("next", "401", "200"),
		}},
		{"the certificate", "tls: {cert: " + s.dir + "/tls.crt, key: " + s.dir + "/tls.key}", "tls: {cert: " + s.dir + "/next.crt, key: " + s.dir + "/next.key}", nil, "server.tls.cert", []probe{
			{"a new connection", func() string { return fmt.Sprint(s.handshake()) }, "0", "1"},
			status("a connection with the old certificate", messages, "200", "200", asAnn),
		}},
		{"the key of operators", "file:" + s.dir + "/admin", "env:ONCE_TEST_ADMIN", nil, "server.admin.key", []probe{
			status("the console with the old key", console, "200", "401", basic(adminKey)), status("the console with the new key", console, "401", "200", basic(nextAdmin)),
		}},
		{"the key of operators for the admin API", "file:" + s.dir + "/admin", "env:ONCE_TEST_ADMIN", nil, "server.admin.key", []probe{
			operator(adminKey, "200", "401"), operator(nextAdmin, "401", "200"),
		}},
	} {
		check := func(when string, after bool) {
			t.Helper()
			for _, p := range c.probes {
				want := p.before
				if after {
					want = p.after
				}
				if got := p.ask(); got != want {
					t.Errorf("%s, %s: %s got %q, want %q", c.name, when, p.name, got, want)
				}
			}
		}
		reload := func(text string) ([]string, error) {
			read, err := config.Parse("test", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			return s.Reconfigure(t.Context(), read)
		}
		s.file("keys", keys)
		if _, err := reload(base); err != nil {
			t.Fatal(err)
		}
		check("at first", false)
		finish := s.begin(fmt.Sprint("message-", n))
		for name, text := range c.files {
			s.file(name, text)
		}
		changed := strings.ReplaceAll(base, c.from, c.to)
		if c.from == "" {
			changed = base
		}
		if _, err := reload(strings.Replace(changed, "chat: {", "chat: {admission: token, ", 1)); !isRestart(err) {
			t.Errorf("%s: got %v, want that the admission needs a restart", c.name, err)
		}
		check("after a reload that needs a restart", false)
		missing := regexp.MustCompile(`(admin: .*key: )"[^"]*"`).ReplaceAllString(changed, `$1"env:ONCE_NOT_SET"`)
		if c.changed == "server.admin.key" {
			missing = regexp.MustCompile(`(auth: \{keys: )"[^"]*"`).ReplaceAllString(changed, `$1"env:ONCE_NOT_SET"`)
		}
		if _, err := reload(missing); err == nil || !strings.Contains(err.Error(), "ONCE_NOT_SET") {
			t.Errorf("%s: got %v, want that a secret is missing", c.name, err)
		}
		check("after a reload with a mistake", false)
		fields, err := reload(changed)
		if err != nil || !strings.HasPrefix(strings.Join(fields, ","), c.changed) {
			t.Errorf("%s: changed %v, %v, want %q", c.name, fields, err, c.changed)
		}
		check("after the reload", true)
		if got := finish(); got != "HTTP/1.1 202" {
			t.Errorf("%s: a message that was under way got %q, want 202", c.name, got)
		}
	}
	if kept.made != 1 || operators.made != 5 { // the admin API closes the connection of a wrong key
		t.Errorf("the requests used %d connections, those of operators %d, want 1 and 5", kept.made, operators.made)
	}
}

func isRestart(err error) bool {
	_, ok := errors.AsType[*embedded.RestartError](err)
	return ok
}
