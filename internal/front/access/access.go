package access

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/front/console"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/front/roles"
	"github.com/effectively-once/once/internal/front/sqsapi"
)

// Options configure the access to a server.
type Options struct {
	// Config has the settings. Required.
	Config *config.Server
	// Streams are the names of all streams, for lists of keys.
	Streams []string
	// Refresh is how long the keys of an issuer are used before a token with an unknown key makes
	// the server ask again. Defaults to 10 s.
	Refresh time.Duration
	// Again is how long a key is used at most that the issuer has removed, while it answers.
	// Defaults to 1 h.
	Again time.Duration
	// Check is how often the access of a request that lasts is checked again, as of a stream of
	// events. Defaults to 5 s.
	Check time.Duration
	// Now defaults to time.Now.
	Now func() time.Time
	// Log gets a line for refused requests, at most a few a second, without keys. Defaults to
	// discarding.
	Log *slog.Logger
	// Denied is called for each request that is refused, with one of the reasons below. Defaults to
	// nothing.
	Denied func(reason string)
}

// Why a request is refused, for metrics.
const (
	DeniedUnauthorized = "unauthorized" // 401: no key or token, or an unknown one
	DeniedOperator     = "operator"     // 401: no key of operators, or an unknown one
	DeniedForbidden    = "forbidden"    // 403: the key or token does not have the role for this stream
	DeniedSQS          = "sqs"          // 403: the SQS protocol, while callers are authenticated
	DeniedHost         = "host"         // 403: the Host is not a name of this server
	DeniedOrigin       = "origin"       // 403: a web page of another origin
	DeniedRate         = "rate-limited" // 429: too many requests of one caller
)

// Access decides who may call. It is safe for concurrent use.
type Access struct {
	options   Options
	keys      atomic.Pointer[[]key]               // nil if there is no list of keys
	operators atomic.Pointer[[][sha256.Size]byte] // their keys, hashed; nil without keys
	issuer    *issuer                             // nil if there is none
	limiter   *limiter
	noted     *rate.Limiter          // lines in the log
	next      atomic.Pointer[Access] // which has replaced this one; nil if none has
}

// Open reads the keys, and begins to ask the issuer for its metadata.
func Open(o Options) (*Access, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Refresh = cmp.Or(o.Refresh, keysFor)
	o.Check = cmp.Or(o.Check, 5*time.Second)
	o.Again = cmp.Or(o.Again, keysUntil)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Denied == nil {
		o.Denied = func(string) {}
	}
	a := &Access{options: o, limiter: newLimiter(o.Config.Rate, o.Now), noted: rate.NewLimiter(1, 10)}
	if err := a.Reload(); err != nil {
		return nil, err
	}
	for _, w := range o.Config.RolesWarnings() {
		o.Log.Warn("callers may only send", "what", w)
	}
	if a.authenticates() && o.Config.Auth.OIDC != nil {
		a.issuer = openIssuer(*o.Config.Auth.OIDC, &o)
	}
	return a, nil
}

// Close ends what Open began.
func (a *Access) Close() {
	if a.issuer != nil {
		a.issuer.close()
	}
}

func (a *Access) authenticates() bool { return a.options.Config.Auth != nil }

// Reload reads the list of keys and the keys of operators again. If one of them has a mistake, both
// stay as they were.
func (a *Access) Reload() error {
	c := a.options.Config
	var keys *[]key
	var operators *[][sha256.Size]byte
	if c.Auth != nil && c.Auth.Keys != "" {
		text, err := c.Auth.Keys.ResolveLines()
		if err != nil {
			return fmt.Errorf("read server.auth.keys: %w", err)
		}
		list, err := parseKeys(text, c.Auth, a.options.Streams)
		if err != nil {
			return fmt.Errorf("read server.auth.keys: %w", err)
		}
		keys = &list
	}
	if c.Admin != nil {
		text, err := c.Admin.Key.ResolveLines()
		if err != nil {
			return fmt.Errorf("read server.admin.key: %w", err)
		}
		list, err := parseOperators(text)
		if err != nil {
			return fmt.Errorf("read server.admin.key: %w", err)
		}
		operators = &list
	}
	a.keys.Store(keys)
	a.operators.Store(operators)
	return nil
}

// Principals returns the principals of the keys, each once. Those of tokens are not known.
func (a *Access) Principals() []string {
	keys := a.keys.Load()
	if keys == nil {
		return nil
	}
	var out []string
	for _, k := range *keys {
		if !slices.Contains(out, k.caller.Principal) {
			out = append(out, k.caller.Principal)
		}
	}
	return out
}

// Operator reports whether a secret is a key of operators.
func (a *Access) Operator(secret string) bool {
	keys, hash := a.operators.Load(), sha256.Sum256([]byte(secret))
	if keys == nil {
		return false
	}
	found := 0
	for i := range *keys { // all of them, so that the time does not depend on the secret
		found |= subtle.ConstantTimeCompare((*keys)[i][:], hash[:])
	}
	return found == 1
}

// Handler lets those requests through to next that may be served.
func (a *Access) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// First, because such a request is recognized by a header, whatever its path.
		if sqsapi.Handles(r) && a.authenticates() {
			a.options.Denied(DeniedSQS)
			refuseSQS(w)
			return
		}
		if r.URL.Path == "/healthz" {
			next.ServeHTTP(w, r)
			return
		}
		if IsConsole(r.URL.Path) {
			a.console(w, r, next)
			return
		}
		secret := secretOf(r.Header)
		c, err := a.caller(r.Context(), secret)
		if err != nil {
			a.refuse(w, r, err)
			return
		}
		if wait, ok := a.limiter.take(bucketOf(r, c)); !ok {
			a.note(r, "too many requests")
			a.options.Denied(DeniedRate)
			p := problem.New(problem.RateLimited, "This caller has sent more requests than the server takes from one. Repeat the request later under the same key.")
			p.RetryAfter = wait
			p.Write(w, "")
			return
		}
		if a.authenticates() {
			r = roles.With(r, c.Caller, func() { a.options.Denied(DeniedForbidden) })
		}
		var p *problem.Problem
		if r.URL.Path == "/metrics" && errors.As(roles.Allow(r, "GET /metrics", ""), &p) {
			p.Write(w, "")
			return
		}
		a.serve(w, r, next, func(now *Access) bool { return now.still(r.Context(), secret, c) })
	})
}

// Lasting serves a request of an operator until its key is no longer the key of operators.
func (a *Access) Lasting(w http.ResponseWriter, r *http.Request, next http.Handler, key string) {
	a.serve(w, r, next, func(now *Access) bool { return now.Operator(key) })
}

// serve serves a request while it is allowed. A reader of a log may stay for days, and its key can
// be removed or its token expire meanwhile. Requests that write are not ended: they are short.
func (a *Access) serve(w http.ResponseWriter, r *http.Request, next http.Handler, allowed func(now *Access) bool) {
	if r.Method == http.MethodGet {
		ctx, stop := a.while(r.Context(), allowed)
		defer stop()
		r = r.WithContext(ctx)
	}
	next.ServeHTTP(w, r)
}

// while returns a context that ends when the access of now does not allow a request any more. The
// caller calls stop at the end of the request.
func (a *Access) while(ctx context.Context, allowed func(now *Access) bool) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var mu sync.Mutex
	var check *time.Timer
	mu.Lock()
	defer mu.Unlock()
	check = time.AfterFunc(a.options.Check, func() {
		if !allowed(a.newest()) {
			cancel()
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() == nil {
			check.Reset(a.options.Check)
		}
	})
	return ctx, func() {
		cancel()
		mu.Lock()
		defer mu.Unlock()
		check.Stop()
	}
}

// newest returns the access that has replaced this one, or this one.
func (a *Access) newest() *Access {
	for next := a.next.Load(); next != nil; next = a.next.Load() {
		a = next
	}
	return a
}

// still reports whether a caller is known and has the same roles for the same streams as before.
func (a *Access) still(ctx context.Context, secret string, c Caller) bool {
	if c.issuer != nil {
		return a.issuer == c.issuer && a.options.Now().Before(c.expires)
	}
	now, err := a.caller(ctx, secret)
	return err == nil && reflect.DeepEqual(now, c)
}

// IsConsole reports whether a path is one of the console.
func IsConsole(path string) bool {
	return path == console.Path || strings.HasPrefix(path, console.Path+"/")
}

// errUnknown is the error for a request without a key, and with one that is not on the list.
var errUnknown = errors.New("no key, or an unknown one")

// caller returns who sends a request with a key or token.
func (a *Access) caller(ctx context.Context, secret string) (Caller, error) {
	if !a.authenticates() {
		return Caller{Caller: roles.Everybody()}, nil
	}
	if secret == "" {
		return Caller{}, errUnknown
	}
	if keys := a.keys.Load(); keys != nil {
		if c, ok := find(*keys, secret); ok {
			return c, nil
		}
	}
	if a.issuer != nil && strings.Count(secret, ".") == 2 {
		return a.issuer.caller(ctx, secret)
	}
	return Caller{}, errUnknown
}

// secretOf returns the key or token of a request, or "".
func secretOf(h http.Header) string {
	if values := h["Authorization"]; len(values) > 0 {
		scheme, secret, _ := strings.Cut(values[0], " ")
		if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") {
			return ""
		}
		return strings.TrimSpace(secret)
	}
	if values := h["X-Api-Key"]; len(values) == 1 {
		return values[0]
	}
	return ""
}

// refuse answers a request whose caller is not known. Whatever is wrong, the answer is the same.
func (a *Access) refuse(w http.ResponseWriter, r *http.Request, err error) {
	a.note(r, oneLine(err))
	if errors.Is(err, errAway) {
		p := problem.New(problem.Unavailable, "The issuer of tokens does not answer, so that this token can't be checked. Repeat the request under the same key.")
		p.RetryAfter = 5 * time.Second
		p.Write(w, "")
		return
	}
	a.options.Denied(DeniedUnauthorized)
	w.Header().Set("WWW-Authenticate", `Bearer realm="once"`)
	problem.New(problem.Unauthorized, "Send a valid key or token, as Authorization: Bearer KEY, or as X-Api-Key: KEY.").Write(w, "")
}

// note logs that a request was refused. The reasons come from this package and from the library
// that checks tokens; none has the key or the token.
func (a *Access) note(r *http.Request, why string) {
	if a.noted.Allow() {
		a.options.Log.Warn("request refused", "from", r.RemoteAddr, "method", r.Method, "why", why)
	}
}

// console lets operators to the console. They give their key as a password, with any user name. If
// there is no such key, the console is open if nothing else authenticates callers.
func (a *Access) console(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if a.operators.Load() == nil {
		if a.authenticates() {
			problem.New(problem.UnknownRoute, "").Write(w, "")
			return
		}
		next.ServeHTTP(w, r)
		return
	}
	if _, password, ok := r.BasicAuth(); ok && a.Operator(password) {
		a.Lasting(w, r, next, password)
		return
	}
	a.note(r, "no key of operators, or a wrong one, for the console")
	a.options.Denied(DeniedOperator)
	w.Header().Set("WWW-Authenticate", `Basic realm="once console", charset="UTF-8"`)
	problem.New(problem.Unauthorized, "The console asks for the key of operators as the password, with any user name.").Write(w, "")
}

// refuseSQS answers a client of SQS in the form of its errors.
func refuseSQS(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/x-amz-json-1.0")
	h.Set("X-Amzn-Query-Error", "AccessDenied;Sender")
	w.WriteHeader(http.StatusForbidden)
	_, _ = w.Write([]byte(`{"__type":"com.amazon.coral.service#AccessDeniedException","message":"This server authenticates its callers, and can't do so over the SQS protocol. Send over HTTP, with a key."}` + "\n"))
}
