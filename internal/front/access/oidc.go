package access

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/front/roles"
)

// Limits on what the issuer is asked for.
const (
	issuerTime    = 10 * time.Second // for one request
	issuerBytes   = 1 << 20          // of one answer
	keysFor       = 10 * time.Second // between two requests for its keys
	failedFor     = time.Second      // between two requests if the first one has failed
	keysUntil     = time.Hour        // a key that the issuer has removed is taken
	maxTokenBytes = 16 << 10
)

// errAway reports that a token could not be checked, because the issuer did not answer.
var errAway = errors.New("the issuer of tokens does not answer")

// An issuer checks the tokens of one OpenID Connect issuer.
type issuer struct {
	config   config.OIDC
	log      *slog.Logger
	client   *http.Client
	now      func() time.Time
	again    time.Duration                        // after which the keys are asked for again
	verifier atomic.Pointer[oidc.IDTokenVerifier] // nil until the issuer has answered
	stop     context.CancelFunc
	done     chan struct{}
}

// openIssuer begins to ask for the metadata of an issuer, until it answers.
func openIssuer(c config.OIDC, o *Options) *issuer {
	ctx, stop := context.WithCancel(context.Background())
	i := &issuer{config: c, log: o.Log, now: o.Now, again: o.Again, stop: stop, done: make(chan struct{}), client: &http.Client{
		Timeout: issuerTime, Transport: &cachedAnswers{next: http.DefaultTransport, last: o.Refresh, now: o.Now},
	}}
	go func() {
		defer close(i.done)
		i.discover(ctx)
	}()
	return i
}

func (i *issuer) close() {
	i.stop()
	<-i.done
}

// discover asks for the metadata of the issuer until there is an answer, and then for its keys from
// time to time.
func (i *issuer) discover(ctx context.Context) {
	ctx = oidc.ClientContext(ctx, i.client)
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 500*time.Millisecond, 30*time.Second
	provider, err := backoff.Retry(ctx, func() (*oidc.Provider, error) {
		// the library takes a client from the context, and has no deadline for the request
		return oidc.NewProvider(ctx, i.config.Issuer)
	}, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, next time.Duration) {
		i.log.Error("the issuer of tokens can't be used: requests with tokens get 503", "issuer", i.config.Issuer, "error", oneLine(err), "next_try", next.Round(time.Millisecond))
	}))
	if err != nil { // the server ends
		return
	}
	var metadata struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&metadata); err != nil || metadata.Keys == "" {
		i.log.Error("the metadata of the issuer of tokens name no keys: requests with tokens get 503", "issuer", i.config.Issuer)
		return
	}
	keys := &watchedKeys{}
	keys.set.Store(oidc.NewRemoteKeySet(ctx, metadata.Keys))
	i.verifier.Store(oidc.NewVerifier(i.config.Issuer, keys, &oidc.Config{ClientID: i.config.Audience, SupportedSigningAlgs: algorithms(), Now: i.now}))
	i.log.Info("tokens are accepted", "issuer", i.config.Issuer, "audience", i.config.Audience)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(i.again):
		}
		if err := keys.renew(ctx, oidc.NewRemoteKeySet(ctx, metadata.Keys)); err != nil && ctx.Err() == nil {
			i.log.Warn("the issuer of tokens does not return its keys: the ones before stay", "issuer", i.config.Issuer, "error", oneLine(err))
		}
	}
}

// algorithms are those with a public key: the issuer keeps the private one.
func algorithms() []string {
	return []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA}
}

// oneLine returns the text of an error without the line breaks that an answer may have.
func oneLine(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	return text[:min(len(text), 300)]
}

// caller returns who sends a token. If it can't be checked now, the error is errAway.
func (i *issuer) caller(ctx context.Context, token string) (Caller, error) {
	v := i.verifier.Load()
	if v == nil {
		return Caller{}, errAway
	}
	if len(token) > maxTokenBytes {
		return Caller{}, fmt.Errorf("token has %d bytes", len(token))
	}
	var failed error
	checked, err := v.Verify(context.WithValue(ctx, failureKey{}, &failed), token)
	switch {
	case failed != nil:
		return Caller{}, fmt.Errorf("%w: %w", errAway, failed)
	case err != nil:
		return Caller{}, err
	}
	claims := map[string]any{}
	if err := checked.Claims(&claims); err != nil {
		return Caller{}, err
	}
	name, _ := claims[cmp.Or(i.config.Principal, "sub")].(string)
	if name == "" {
		return Caller{}, errors.New("token has no claim for the principal")
	}
	c := Caller{roles.ByClaims(&i.config, tokenPrincipal(checked.Issuer, name), claims), i, checked.Expiry}
	return c, nil
}

type failureKey struct{}

// watchedKeys distinguishes, for the caller of a verifier, keys that could not be asked for from a
// signature that is wrong. The library says both with a text.
//
// A set of the library never forgets a key until it meets an unknown one. So it is replaced from
// time to time: otherwise a key that the issuer has removed could be used forever.
type watchedKeys struct {
	set atomic.Pointer[oidc.RemoteKeySet]
}

// VerifySignature implements [oidc.KeySet].
func (k *watchedKeys) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	payload, err := k.set.Load().VerifySignature(ctx, token)
	if failed, ok := ctx.Value(failureKey{}).(*error); ok && isFetch(err) {
		*failed = err
	}
	return payload, err
}

func isFetch(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "fetching keys") }

// unsigned is a token that no key has signed.
const unsigned = "eyJhbGciOiJSUzI1NiJ9.e30.AA"

// renew uses another set when that has keys. A token makes it ask for them.
func (k *watchedKeys) renew(ctx context.Context, next *oidc.RemoteKeySet) error {
	if _, err := next.VerifySignature(ctx, unsigned); isFetch(err) {
		return err
	}
	k.set.Store(next)
	return nil
}

// cachedAnswers repeats the last answer to a URL for some time: a failure for [failedFor], or for
// last if that is shorter. Without it, everybody could make this server ask the issuer for its
// keys, with tokens that name keys that do not exist.
//
// It makes no request without encryption to another machine, neither for a URL in the metadata nor
// for a redirect: whoever can change the answer could make tokens.
type cachedAnswers struct {
	next http.RoundTripper
	last time.Duration
	now  func() time.Time

	mu      sync.Mutex
	answers map[string]cachedAnswer
}

type cachedAnswer struct {
	at     time.Time
	err    error // if there was no answer
	status int
	header http.Header
	body   []byte
}

// RoundTrip implements [http.RoundTripper].
func (c *cachedAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !config.Loopback(r.URL.Host) {
		return nil, fmt.Errorf("%s is not encrypted", r.URL.Redacted())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	url := r.URL.String()
	a, known := c.answers[url]
	if age := c.now().Sub(a.at); !known || age < 0 || age >= c.keep(&a) {
		a = c.ask(r)
		if c.answers == nil {
			c.answers = map[string]cachedAnswer{}
		}
		c.answers[url] = a
	}
	if a.err != nil {
		return nil, a.err
	}
	return a.response(r), nil
}

// keep returns how long an answer is repeated.
func (c *cachedAnswers) keep(a *cachedAnswer) time.Duration {
	if a.err != nil || a.status != http.StatusOK {
		return min(c.last, failedFor)
	}
	return c.last
}

// ask makes a request.
func (c *cachedAnswers) ask(r *http.Request) cachedAnswer {
	answer, err := c.next.RoundTrip(r)
	if err != nil {
		return cachedAnswer{at: c.now(), err: err}
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, issuerBytes+1))
	_ = answer.Body.Close() // it was read
	if err == nil && len(body) > issuerBytes {
		err = fmt.Errorf("the answer has more than %d bytes", issuerBytes)
	}
	return cachedAnswer{c.now(), err, answer.StatusCode, answer.Header, body}
}

func (a *cachedAnswer) response(r *http.Request) *http.Response {
	return &http.Response{
		StatusCode: a.status, Status: fmt.Sprint(a.status, " ", http.StatusText(a.status)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: a.header.Clone(), ContentLength: int64(len(a.body)), Body: io.NopCloser(bytes.NewReader(a.body)),
	}
}
