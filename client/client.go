package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Options configure a client. Zero fields take the defaults in their comments.
type Options struct {
	// HTTP makes the requests. The client uses a copy that follows no redirects, because a
	// redirected POST may turn into a GET. Defaults to a client that keeps up to 100 connections.
	HTTP *http.Client
	// Header goes with every request, for example Authorization. Defaults to none.
	Header http.Header
	// TryTimeout is the timeout of one try, in addition to a wait for the reply; a try without an
	// answer is repeated. Defaults to 30 seconds.
	TryTimeout time.Duration
	// MaxElapsed is the time after which a call begins no further try. A try that is under way then
	// continues for up to TryTimeout; a deadline of the context ends it, too. Defaults to no limit:
	// a call continues until its context ends.
	MaxElapsed time.Duration
	// MinBackoff and MaxBackoff limit the wait between two tries, which doubles each time and is
	// jittered by half. A longer Retry-After takes precedence; if it does not come from a once
	// server, up to a minute. They default to 100 milliseconds and 10 seconds.
	MinBackoff time.Duration
	MaxBackoff time.Duration
	// NeedServer makes a call fail without a retry if its first try was refused the connection,
	// because nothing listens at the server's address, or if the server's certificate can't be
	// verified. By default such a call is retried, as when a server restarts.
	NeedServer bool
	// OnRetry is called with the reason of a retry and the wait before it. Defaults to nothing. It
	// may be called concurrently.
	OnRetry func(err error, wait time.Duration)
	// NewKey makes keys for messages that have none. Defaults to version 7 UUIDs, which sort by
	// time.
	NewKey func() (string, error)
}

func (o Options) withDefaults() Options {
	if o.HTTP == nil {
		transport := &http.Transport{
			Proxy: http.ProxyFromEnvironment, MaxIdleConns: 100, MaxIdleConnsPerHost: 100,
			IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second, ForceAttemptHTTP2: true,
		}
		o.HTTP = &http.Client{Transport: transport}
	}
	stay := *o.HTTP
	stay.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	o.HTTP = &stay
	o.TryTimeout = cmp.Or(o.TryTimeout, 30*time.Second)
	o.MinBackoff = cmp.Or(o.MinBackoff, 100*time.Millisecond)
	o.MaxBackoff = cmp.Or(o.MaxBackoff, 10*time.Second)
	if o.OnRetry == nil {
		o.OnRetry = func(error, time.Duration) {}
	}
	if o.NewKey == nil {
		o.NewKey = newKey
	}
	return o
}

func newKey() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make key: %w", err)
	}
	return id.String(), nil
}

// Client calls one server. It may be used concurrently.
type Client struct {
	base    *url.URL
	options Options
}

// New returns a client for a server's absolute http or https URL; a path prefix before /v1 is kept.
// It does no input or output.
func New(baseURL string, options Options) (*Client, error) {
	base, err := url.Parse(baseURL)
	if err != nil {
		if _, hint := url.Parse("http://" + baseURL); hint == nil && !strings.Contains(baseURL, "://") {
			return nil, fmt.Errorf("server URL %q must start with http:// or https://: did you mean http://%s?", baseURL, baseURL)
		}
		return nil, fmt.Errorf("parse server URL: %w", err)
	}
	if base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("parse server URL %q: must be an absolute http or https URL", baseURL)
	}
	if base.RawQuery != "" || base.Fragment != "" {
		return nil, errors.New("parse server URL: must not have a query or a fragment")
	}
	return &Client{base: base, options: options.withDefaults()}, nil
}

// at returns the URL of a path below the base; segments are escaped, so that an id may contain
// slashes.
func (c *Client) at(segments ...string) string {
	return c.base.JoinPath("v1").String() + joinEscaped(segments)
}

func joinEscaped(segments []string) string {
	var path strings.Builder
	for _, s := range segments {
		escaped := url.PathEscape(s)
		if s == "." || s == ".." {
			escaped = "%2E" + s[1:] // a single dot would be removed as a path segment
		}
		path.WriteString("/" + escaped)
	}
	return path.String()
}

// Healthy asks the server once, without retries, whether it is ready.
func (c *Client) Healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.options.TryTimeout)
	defer cancel()
	answer, err := c.try(ctx, request{method: http.MethodGet, url: c.base.JoinPath("healthz").String()})
	if err != nil {
		return fmt.Errorf("check health: %w", err)
	}
	if answer.status != http.StatusOK {
		return fmt.Errorf("check health: %w", problemOf(answer))
	}
	return nil
}
