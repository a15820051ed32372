package link

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// Config configures a sender. Zero fields take the defaults in their comments.
type Config struct {
	// System is the name of this system, and Destination that of the destination. Required.
	System, Destination string
	// URL is the beginning of the other system's URLs, and Stream a stream there. Required.
	URL, Stream string
	// Group is the group there. Defaults to that of the effect.
	Group string
	// Key returns the key of this system. It is called once for each request, so that a key can
	// change. Defaults to no key.
	Key func() (string, error)
	// Header is the header that carries the key. Defaults to Authorization, as a bearer token.
	Header string
	// Timeout is the timeout of one request. Defaults to 10 seconds.
	Timeout time.Duration
	// Concurrency is how many requests may be in flight. Defaults to 16.
	Concurrency int
	// Transport defaults to a new one, with the settings of http.DefaultTransport.
	Transport http.RoundTripper
	// Now defaults to time.Now.
	Now func() time.Time
}

func (c Config) withDefaults() Config {
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	c.Concurrency = cmp.Or(c.Concurrency, 16)
	if c.Transport == nil {
		c.Transport = NewTransport(c.Concurrency)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// NewTransport returns a transport with the settings of http.DefaultTransport that keeps so many
// connections.
func NewTransport(connections int) http.RoundTripper {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok { // the program replaced it on purpose
		return http.DefaultTransport
	}
	t := base.Clone()
	t.MaxIdleConnsPerHost = connections
	return t
}

// A Sender sends to one stream of another system.
type Sender struct {
	config Config
	url    string // of batches
	host   string // for errors
	client *http.Client
	slots  chan struct{} // one for each request in flight
	pause  pause
}

var _ record.Sender = (*Sender)(nil)

// New checks the configuration. It sends nothing.
func New(c Config) (*Sender, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("the URL of a system must be absolute, with http or https, and without user name, query and fragment")
	}
	if err := record.ValidStream(c.Stream); err != nil {
		return nil, fmt.Errorf("send to stream %q of another system: %w", c.Stream, err)
	}
	if err := record.ValidStream(c.System); err != nil {
		return nil, errors.New("a system that sends to others needs a name")
	}
	c = c.withDefaults()
	return &Sender{
		config: c, host: u.Host, url: strings.TrimRight(c.URL, "/") + "/v1/streams/" + c.Stream + "/batch",
		client: &http.Client{
			Transport: c.Transport, Timeout: c.Timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		slots: make(chan struct{}, c.Concurrency), pause: pause{now: c.Now},
	}, nil
}

// Send posts the deliveries in requests of consecutive ones, one after the other. See
// [record.Sender].
func (s *Sender) Send(ctx context.Context, deliveries []record.Delivery) []error {
	errs := make([]error, len(deliveries))
	if err := s.pause.lasts(); err != nil { // encode no line in vain
		err = fmt.Errorf("post to %s: %w", s.host, err)
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	lines := make([]*line, len(deliveries))
	for i := range deliveries {
		lines[i] = s.line(&deliveries[i])
	}
	s.sendAll(ctx, lines)
	var voids []*line
	for i, l := range lines {
		if l.refused != nil && l.voids {
			lines[i] = s.void(&deliveries[i], l.refused)
			voids = append(voids, lines[i])
		}
	}
	s.sendAll(ctx, voids)
	for i, l := range lines {
		switch {
		case l.err != nil:
			errs[i] = fmt.Errorf("post to %s: %w", s.host, l.err)
		case l.refused != nil:
			errs[i] = l.refused
		}
	}
	stop(deliveries, errs)
	return errs
}

// stop fails the deliveries that follow a failed one of their group: they are sent again with
// it. A refused one stops nothing.
func stop(deliveries []record.Delivery, errs []error) {
	failed := map[record.GroupKey]error{}
	for i := range deliveries {
		d := &deliveries[i]
		key := record.GroupKey{Stream: d.Stream, Group: d.Group}
		if before := failed[key]; before != nil {
			errs[i] = fmt.Errorf("an earlier delivery of the group failed: %w", before)
			continue
		}
		if errs[i] != nil && d.Number > 0 && !errors.As(errs[i], new(*record.RefusedError)) {
			failed[key] = errs[i]
		}
	}
}

// Limits of one request. The other system takes 1000 messages and 4 MB.
const (
	maxLines = 500
	maxBytes = 1 << 20
)

// sendAll sends the lines that are not refused yet, and sets the result of each. After a request
// that failed as a whole, no further one is sent.
func (s *Sender) sendAll(ctx context.Context, lines []*line) {
	var open []*line
	for _, l := range lines {
		if l.data != nil {
			open = append(open, l)
		}
	}
	for len(open) > 0 {
		n, size := 0, 0
		for n < len(open) && n < maxLines && (n == 0 || size+len(open[n].data) <= maxBytes) {
			size += len(open[n].data)
			n++
		}
		err := s.post(ctx, open[:n])
		if err != nil {
			fail(open[:n], err)
			fail(open[n:], fmt.Errorf("%w: a request before it failed: %w", record.ErrUntried, err))
			return
		}
		open = open[n:]
	}
}

func fail(lines []*line, err error) {
	for _, l := range lines {
		l.err = err
	}
}
