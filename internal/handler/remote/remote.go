// Package remote calls a handler over HTTP.
//
// A request is one signed POST. Only the status 200 is an answer; every other one, a redirect
// included, is an error.
//
// # Errors
//
// A problem (RFC 9457) is an error in the handler's own words, a [*handler.FailedError], unless its
// status is 502, 503 or 504: then a proxy may have answered because the handler is down. No error
// contains more of the URL than its host: the rest may contain secrets.
//
// # Limits
//
// An answer has at most [handler.MaxAnswer] bytes. The caller's context bounds the time.
package remote

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/effectively-once/once/internal/destination/webhook"
	"github.com/effectively-once/once/internal/handler"
	"github.com/effectively-once/once/internal/record"
)

// Options configure a caller. Zero fields take the defaults in their comments.
type Options struct {
	// Secret returns the signing secret, as that of [webhook.Options]. Defaults to no signature.
	Secret func() (string, error)
	// Concurrency is how many connections are kept. Defaults to 64.
	Concurrency int
	// Transport defaults to a new one, with the settings of http.DefaultTransport.
	Transport http.RoundTripper
	// Now defaults to time.Now.
	Now func() time.Time
}

// A Caller is a handler behind a URL.
type Caller struct {
	url     string
	host    string
	client  *http.Client
	options Options
}

var _ handler.Caller = (*Caller)(nil)

// New returns the caller for a URL. It sends nothing.
func New(target string, o Options) (*Caller, error) {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return nil, errors.New("the URL of a handler must be absolute, with http or https and a host, without user name, password and fragment")
	}
	o.Concurrency = cmp.Or(o.Concurrency, 64)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Transport == nil {
		o.Transport = newTransport(o.Concurrency)
	}
	refuse := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Caller{url: target, host: u.Host, client: &http.Client{Transport: o.Transport, CheckRedirect: refuse}, options: o}, nil
}

func newTransport(concurrency int) http.RoundTripper {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok { // the program replaced it on purpose
		return http.DefaultTransport
	}
	t := base.Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, concurrency
	return t
}

// Close closes the connections that are idle.
func (c *Caller) Close() error {
	c.client.CloseIdleConnections()
	return nil
}

// Call implements [handler.Caller].
func (c *Caller) Call(ctx context.Context, attempt string, request []byte) ([]byte, error) {
	r, err := c.request(ctx, attempt, request)
	if err != nil {
		return nil, err
	}
	response, err := c.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("call the handler at %s: %w", c.host, c.plain(ctx, err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, handler.MaxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the answer of the handler at %s: %w", c.host, c.plain(ctx, err))
	case response.StatusCode != http.StatusOK:
		return nil, c.refusal(response, body)
	case len(body) > handler.MaxAnswer:
		return nil, fmt.Errorf("the answer of the handler at %s has more than %d bytes", c.host, handler.MaxAnswer)
	}
	return body, nil
}

// plain returns an error of net/http without the URL, and the caller's reason if it has ended the
// call.
func (c *Caller) plain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

func (c *Caller) request(ctx context.Context, attempt string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("make request") // the error would contain the URL
	}
	sign, err := webhook.NewSigner(c.options.Secret)
	if err != nil {
		return nil, fmt.Errorf("sign the request to the handler: %w", err)
	}
	now := c.options.Now()
	h := r.Header
	h.Set("Content-Type", "application/json")
	h.Set("Accept", "application/json")
	h.Set("User-Agent", "once")
	// net/http repeats a request with a key if a kept connection turns out to be closed.
	h.Set("Idempotency-Key", strconv.Quote(attempt))
	h.Set(standardwebhooks.HeaderWebhookID, attempt)
	h.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	if sign != nil {
		signature, err := sign(attempt, now, body)
		if err != nil {
			return nil, errors.New("sign the request to the handler")
		}
		h.Set(standardwebhooks.HeaderWebhookSignature, signature)
	}
	return r, nil
}

// refusal returns the error for a status that is not 200.
func (c *Caller) refusal(response *http.Response, body []byte) error {
	code := response.StatusCode
	if text, ok := problem(response.Header.Get("Content-Type"), body); ok && code >= http.StatusBadRequest && !gateway(code) {
		return handler.Failed(text)
	}
	answer := &record.AnswerError{
		Status: code, Text: strings.TrimSpace(strconv.Itoa(code) + " " + http.StatusText(code)), Body: string(body[:min(len(body), record.MaxAnswer)]),
	}
	hint := "only 200 is an answer"
	switch {
	case code >= 300 && code < 400:
		hint = "redirects are not followed: write the URL to which it points into the configuration"
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed:
		hint = "is the path of the URL right?"
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		hint = "does the handler have the same secret?"
	}
	return fmt.Errorf("call the handler at %s (%s): %w", c.host, hint, answer)
}

// gateway reports whether a proxy may answer with a status because it can't reach the handler.
func gateway(code int) bool {
	return code == http.StatusBadGateway || code == http.StatusServiceUnavailable || code == http.StatusGatewayTimeout
}

// problem returns the text of a problem (RFC 9457), and reports whether a body is one.
func problem(contentType string, body []byte) (text string, ok bool) {
	media, _, _ := mime.ParseMediaType(contentType)
	var p struct{ Title, Detail string }
	if media != "application/problem+json" || json.Unmarshal(body, &p) != nil {
		return "", false
	}
	return cmp.Or(p.Detail, p.Title), true
}
