package access_test

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/front/access"
	"github.com/effectively-once/once/internal/front/roles"
	"github.com/effectively-once/once/internal/testkit/eventually"
)

// An issuer is an OpenID Connect issuer with keys that can be replaced.
type issuer struct {
	t      *testing.T
	url    string
	asked  atomic.Int64 // for keys
	broken atomic.Bool  // it returns no keys
	away   atomic.Bool  // it closes connections without an answer
	keys   string       // the URL of the keys in the metadata; "" for the one of this issuer
	mu     sync.Mutex
	secret *ecdsa.PrivateKey
	name   string // of the key
}

// newIssuer returns an issuer that serves on a listener.
func newIssuer(t *testing.T, listener net.Listener) *issuer {
	t.Helper()
	i := &issuer{t: t, url: "http://" + listener.Addr().String()}
	i.rotate("first")
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		// it also names algorithms that this server must not take
		_, _ = fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q,"authorization_endpoint":"x","token_endpoint":"x","id_token_signing_alg_values_supported":["none","HS256","ES256"]}`, i.url, cmp.Or(i.keys, i.url+"/keys"))
	})
	mux.HandleFunc("/elsewhere", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://192.0.2.1/keys", http.StatusFound)
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		if i.asked.Add(1); i.broken.Load() {
			http.Error(w, "no database", http.StatusInternalServerError)
			return
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.secret.Public(), KeyID: i.name, Algorithm: "ES256", Use: "sig"}}})
	})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if i.away.Load() {
			panic(http.ErrAbortHandler)
		}
		mux.ServeHTTP(w, r)
	})
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}}
	server.Start()
	t.Cleanup(server.Close)
	return i
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	var c net.ListenConfig
	l, err := c.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func (i *issuer) rotate(name string) {
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.secret, i.name = secret, name
}

// claims returns those of a good token, with changes; a nil removes one.
func (i *issuer) claims(changes map[string]any) map[string]any {
	c := map[string]any{
		"iss": i.url, "aud": "once", "sub": "ann", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(), "once_streams": []string{"orders"},
	}
	maps.Copy(c, changes)
	for name, value := range c {
		if value == nil {
			delete(c, name)
		}
	}
	return c
}

func (i *issuer) token(changes map[string]any) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return signed(i.t, jose.ES256, i.secret, i.name, i.claims(changes))
}

func signed(t *testing.T, algorithm jose.SignatureAlgorithm, key any, name string, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", name))
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func withIssuer(url string) *config.Server {
	return &config.Server{Auth: &config.Auth{OIDC: &config.OIDC{Issuer: url, Audience: "once", Streams: "once_streams"}}}
}

// becomes sends a token until the answer has the status. go-oidc wakes the requests that wait for new
// keys before it stores these keys, so the next request may still be checked with the old keys.
func (w *world) becomes(what, token string, status int) {
	w.t.Helper()
	eventually.Succeeds(w.t, func() error {
		if got := w.bearer(token); got.status != status {
			return fmt.Errorf("%s: %d %s, want %d", what, got.status, got.body, status)
		}
		return nil
	})
}

// bearer gets a page with a token, until the server has the answer of its issuer.
func (w *world) bearer(token string) (got answer) {
	w.t.Helper()
	eventually.Succeeds(w.t, func() error { // the issuer is asked in the background
		if got = w.get("/", "Authorization: Bearer "+token); got.status == 503 {
			return fmt.Errorf("%d %s", got.status, got.body)
		}
		return nil
	})
	return got
}

func TestATokenGivesARequestItsPrincipalAndItsStreams(t *testing.T) {
	i := newIssuer(t, listen(t))
	w := newWorld(t, withIssuer(i.url), "")
	ann := "jwt:" + i.url + "#ann"
	for name, c := range map[string]struct {
		changes map[string]any
		want    string
	}{
		"a list of streams":           {nil, ann + " may use orders"},
		"a text of streams":           {map[string]any{"once_streams": "chat orders"}, ann + " may use orders,chat"},
		"no claim for streams":        {map[string]any{"once_streams": nil}, ann + " may use "},
		"streams that are numbers":    {map[string]any{"once_streams": []any{1, "chat"}}, ann + " may use chat"},
		"one of several audiences":    {map[string]any{"aud": []string{"shop", "once"}}, ann + " may use orders"},
		"a long subject":              {map[string]any{"sub": strings.Repeat("x", 300)}, "jwt:sha256:"},
		"a subject with line breaks":  {map[string]any{"sub": "ann\nkey:bob"}, "jwt:sha256:"},
		"a subject that is a key's":   {map[string]any{"sub": "key:bob"}, "jwt:" + i.url + "#key:bob"},
		"a token that is valid later": {map[string]any{"nbf": time.Now().Add(-time.Minute).Unix()}, ann + " may use orders"},
	} {
		if got := w.bearer(i.token(c.changes)); got.status != 200 || !strings.HasPrefix(got.body, c.want) {
			t.Errorf("%s: got %d %q, want 200 and %q", name, got.status, got.body, c.want)
		}
	}
	c := withIssuer(i.url)
	c.Auth.OIDC.Principal, c.Auth.OIDC.Streams = "client", ""
	w = newWorld(t, c, "")
	w.is("another claim, and no claim for streams", w.bearer(i.token(map[string]any{"client": "till-7"})), 200, "jwt:"+i.url+"#till-7 may use orders,chat")
	w.is("a token without that claim", w.bearer(i.token(nil)), 401, "#unauthorized")
}

func TestATokenHasTheRolesOfItsClaimAndWithoutOneItSendsOnly(t *testing.T) {
	i := newIssuer(t, listen(t))
	for name, c := range map[string]struct {
		claim   string // in the configuration
		value   any
		streams any
		want    string // streams to send to, and streams to read
	}{
		"no setting":                        {"", []string{"read"}, "orders chat", "orders,chat|"},
		"a text, as a scope":                {"once_roles", "openid read send:chat reader", "orders chat", "chat|orders,chat"},
		"a list":                            {"once_roles", []any{"read:or*", 7, "send"}, "orders chat", "orders,chat|orders"},
		"no claim":                          {"once_roles", nil, "orders chat", "|"},
		"a claim that is none":              {"once_roles", map[string]any{"read": true}, "orders chat", "|"},
		"words that are no roles":           {"once_roles", "READ read: read:_ read:[a-z]* sendd", "orders chat", "|"},
		"streams beside those of the claim": {"once_roles", "read:chat send:*", "orders", "orders|"},
		"no stream has an empty name":       {"once_roles", "read", []string{""}, "|"},
	} {
		o := withIssuer(i.url)
		o.Auth.OIDC.Roles = c.claim
		w := newWorld(t, o, "")
		got := w.bearer(i.token(map[string]any{"once_roles": c.value, "once_streams": c.streams}))
		if _, may, _ := strings.Cut(got.body, " sends "); may != c.want {
			t.Errorf("%s: got %q, want %q", name, got.body, c.want)
		}
	}
}

func TestAnEmptyNameAmongTheStreamsOfACallerIsNotAllStreams(t *testing.T) {
	c := roles.ByClaims(&config.OIDC{Streams: "streams", Roles: "roles"}, "p", map[string]any{"streams": []any{"", "orders"}, "roles": "read"})
	if !slices.Equal(c.Streams, []string{"orders"}) {
		t.Errorf("got the streams %q", c.Streams)
	}
	c.Streams = []string{""}
	if roles.May(roles.With(httptest.NewRequest(http.MethodGet, "/metrics", nil), c, func() {}), "GET /metrics", "") {
		t.Error("an empty name is all streams")
	}
}

func TestAForgedExpiredOrForeignTokenGets401(t *testing.T) {
	i, other := newIssuer(t, listen(t)), newIssuer(t, listen(t))
	w := newWorld(t, withIssuer(i.url), "")
	w.is("a good token", w.bearer(i.token(nil)), 200, "")
	want := w.bearer(bobsKey).body
	i.mu.Lock()
	public, good := i.secret.Public(), i.claims(nil)
	i.mu.Unlock()
	der, err := json.Marshal(jose.JSONWebKey{Key: public})
	if err != nil {
		t.Fatal(err)
	}
	part := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	parts := strings.Split(i.token(nil), ".")
	jwk := jose.JSONWebKey{Key: mustKey(t), KeyID: "mine"}
	own, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jwk}, &jose.SignerOptions{EmbedJWK: true})
	if err != nil {
		t.Fatal(err)
	}
	embedded, err := jwt.Signed(own).Claims(good).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{
		"expired":                     i.token(map[string]any{"exp": time.Now().Add(-time.Second).Unix()}),
		"without an end":              i.token(map[string]any{"exp": nil}),
		"not valid yet":               i.token(map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}),
		"for another audience":        i.token(map[string]any{"aud": "shop"}),
		"for no audience":             i.token(map[string]any{"aud": nil}),
		"of another issuer":           i.token(map[string]any{"iss": "https://evil.example"}),
		"of no issuer":                i.token(map[string]any{"iss": nil}),
		"without a subject":           i.token(map[string]any{"sub": nil}),
		"with a subject of no text":   i.token(map[string]any{"sub": 7}),
		"of another issuer's key":     other.token(map[string]any{"iss": i.url}),
		"with the name of a key only": signed(t, jose.ES256, mustKey(t), "first", good),
		"with a key in its header":    embedded,
		"with the algorithm none":     part(map[string]any{"alg": "none"}) + "." + part(good) + ".",
		"none, and a signature":       part(map[string]any{"alg": "none"}) + "." + part(good) + "." + parts[2],
		"HS256 by the public key":     signed(t, jose.HS256, der, "first", good),
		"with other claims":           parts[0] + "." + part(i.claims(map[string]any{"sub": "root"})) + "." + parts[2],
		"without a signature":         parts[0] + "." + parts[1] + ".",
		"that is no JSON":             "a.b.c",
		"that is empty":               "..",
		"that is large":               parts[0] + "." + strings.Repeat("A", 17<<10) + "." + parts[2],
	} {
		if got := w.bearer(token); got.status != 401 || got.body != want {
			t.Errorf("a token %s: got %d %s, want the 401 of a wrong key", name, got.status, got.body)
		}
	}
	if strings.Contains(w.log.String(), parts[2]) {
		t.Errorf("the log has a token:\n%s", w.log.String())
	}
}

func mustKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestWhileTheIssuerIsAwayATokenGets503AndAKeyIsServed(t *testing.T) {
	i := newIssuer(t, listen(t))
	i.away.Store(true)
	c := withIssuer(i.url)
	c.Auth.Keys = "file"
	w := newWorld(t, c, "ann "+annsKey+"\n")
	got := w.get("/", "Authorization: Bearer a.b.c")
	if got.status != 503 || got.header.Get("Retry-After") != "5" {
		t.Errorf("a token: got %d, Retry-After %q, want 503 and 5", got.status, got.header.Get("Retry-After"))
	}
	w.is("a key", w.get("/", "Authorization: Bearer "+annsKey), 200, "key:ann")
	w.is("a wrong key", w.get("/", "Authorization: Bearer "+bobsKey), 401, "")
	i.away.Store(false)
	w.is("a token when the issuer is there", w.bearer(i.token(nil)), 200, "jwt:")
}

func TestATokenThatTheIssuerHasNoAnswerForGets503AndIsTakenLater(t *testing.T) {
	i := newIssuer(t, listen(t))
	w := newWorld(t, withIssuer(i.url), "")
	first := i.token(nil)
	w.is("a good token", w.bearer(first), 200, "")
	i.broken.Store(true)
	i.rotate("second")
	second := i.token(nil)
	eventually.Succeeds(t, func() error { // when the time in which the world asks once is over
		if got := w.get("/", "Authorization: Bearer "+second); got.status != 503 || !strings.Contains(got.body, "#unavailable") {
			return fmt.Errorf("a token of a new key: got %d %s, want 503", got.status, got.body)
		}
		return nil
	})
	w.is("a token of the known key", w.get("/", "Authorization: Bearer "+first), 200, "")
	i.broken.Store(false)
	w.is("the token, when the issuer answers", w.bearer(second), 200, "")
}

func TestANewKeyOfTheIssuerIsFoundAndTheOldOneIsNoLongerTaken(t *testing.T) {
	i := newIssuer(t, listen(t))
	w := newWorld(t, withIssuer(i.url), "")
	first := i.token(nil)
	w.is("the first key", w.bearer(first), 200, "")
	i.rotate("second")
	w.becomes("the second key", i.token(nil), 200)
	w.becomes("the first key, withdrawn", first, 401)
}

func TestTokensWithUnknownKeysDoNotMakeTheServerFloodItsIssuer(t *testing.T) {
	i := newIssuer(t, listen(t))
	w := newWorldOf(t, withIssuer(i.url), "", time.Hour)
	w.is("a good token", w.bearer(i.token(nil)), 200, "")
	for n := range 50 {
		w.is("an unknown key", w.bearer(signed(t, jose.ES256, mustKey(t), fmt.Sprint("key", n), i.claims(nil))), 401, "")
	}
	if n := i.asked.Load(); n != 1 {
		t.Errorf("the issuer was asked for its keys %d times, want once", n)
	}
	w.is("a good token after that", w.bearer(i.token(nil)), 200, "")
}

func TestTokensDoNotMakeTheServerFloodAnIssuerThatFails(t *testing.T) {
	i := newIssuer(t, listen(t))
	i.broken.Store(true)
	var later atomic.Int64
	begin := time.Now()
	w := newWorldBy(t, withIssuer(i.url), "", access.Options{Refresh: time.Hour, Now: func() time.Time { return begin.Add(time.Duration(later.Load())) }})
	for range 200 {
		w.is("a token", w.get("/", "Authorization: Bearer "+i.token(nil)), 503, "#unavailable")
	}
	for i.asked.Load() == 0 { // its metadata may come late
		w.is("a token", w.get("/", "Authorization: Bearer "+i.token(nil)), 503, "#unavailable")
	}
	for range 200 {
		w.is("a token", w.get("/", "Authorization: Bearer "+i.token(nil)), 503, "#unavailable")
	}
	if n := i.asked.Load(); n != 1 {
		t.Errorf("the issuer was asked for its keys %d times within a second, want 1", n)
	}
	i.broken.Store(false)
	later.Store(int64(time.Second))
	w.is("a token, when the issuer answers", w.bearer(i.token(nil)), 200, "jwt:")
}

func TestAKeyThatTheIssuerHasRemovedIsNotTakenForever(t *testing.T) {
	i := newIssuer(t, listen(t))
	w := newWorldBy(t, withIssuer(i.url), "", access.Options{Refresh: time.Millisecond, Again: 20 * time.Millisecond})
	first := i.token(nil)
	w.is("the key", w.bearer(first), 200, "")
	i.broken.Store(true)
	before := i.asked.Load()
	eventually.Succeeds(t, func() error {
		w.is("the key, while the issuer returns none", w.get("/", "Authorization: Bearer "+first), 200, "")
		if n := i.asked.Load() - before; n < 3 {
			return fmt.Errorf("the issuer was asked for its keys %d times, want 3", n)
		}
		return nil
	})
	i.rotate("second") // and no token of the second key comes
	i.broken.Store(false)
	w.becomes("the key, removed", first, 401)
	w.becomes("the second key", i.token(nil), 200)
}

func TestKeysOfAnIssuerAreNotReadFromAnotherMachineWithoutEncryption(t *testing.T) {
	for _, keys := range []string{"http://192.0.2.1/keys", "/elsewhere"} {
		i := newIssuer(t, listen(t))
		if i.keys = keys; keys == "/elsewhere" {
			i.keys = i.url + keys
		}
		w := newWorld(t, withIssuer(i.url), "")
		await(t, "tokens are accepted", w.log.String)
		w.is("a token", w.get("/", "Authorization: Bearer "+i.token(nil)), 503, "#unavailable")
		await(t, "http://192.0.2.1/keys is not encrypted", w.log.String)
	}
}

func await(t *testing.T, want string, get func() string) {
	t.Helper()
	eventually.Succeeds(t, func() error {
		if text := get(); !strings.Contains(text, want) {
			return fmt.Errorf("there is no %q in:\n%s", want, text)
		}
		return nil
	})
}
