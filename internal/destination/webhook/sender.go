package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/effectively-once/once/internal/record"
)

// Options configure a sender. Zero fields take the defaults in their comments.
type Options struct {
	// Secret returns the signing secret, base64 with or without the prefix "whsec_". It is called
	// once for each Send, so that a secret can change. Several secrets with spaces between them
	// make a signature each. Defaults to no signature.
	Secret func() (string, error)
	// Budget is how long after its start a Send may begin another try of a failed delivery.
	// Defaults to 10 seconds.
	Budget time.Duration
	// Timeout is the timeout of one request. Defaults to 10 seconds.
	Timeout time.Duration
	// Concurrency is how many requests to this destination may be in flight. Defaults to 16.
	Concurrency int
	// Transport defaults to a new one, with the settings of http.DefaultTransport.
	Transport http.RoundTripper
	// Now defaults to time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	o.Budget = cmp.Or(o.Budget, 10*time.Second)
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	o.Concurrency = cmp.Or(o.Concurrency, 16)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// A Sender posts deliveries to one URL.
type Sender struct {
	url     string
	host    string // for errors: the rest of a URL may contain secrets
	client  *http.Client
	options Options
	slots   chan struct{} // one for each request in flight
	silent  atomic.Int64  // Unix milliseconds until which the destination asked not to be called
	breaker *breaker
}

var _ record.Sender = (*Sender)(nil)

// New checks the URL, see validURL. It sends nothing.
func New(target string, options Options) (*Sender, error) {
	if err := validURL(target); err != nil {
		return nil, err
	}
	u, err := url.Parse(target)
	if err != nil {
		return nil, errNoURL
	}
	options = options.withDefaults()
	if options.Transport == nil {
		options.Transport = newTransport(options.Concurrency)
	}
	return &Sender{
		url:  target,
		host: u.Host,
		client: &http.Client{
			Transport:     options.Transport,
			Timeout:       options.Timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		options: options,
		slots:   make(chan struct{}, options.Concurrency),
		breaker: &breaker{now: options.Now},
	}, nil
}

func newTransport(concurrency int) http.RoundTripper {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok { // the program replaced it on purpose
		return http.DefaultTransport
	}
	t := base.Clone()
	t.MaxIdleConnsPerHost = concurrency
	return t
}

var errNoURL = errors.New("webhook URL must be absolute, with http or https and a host")

// validURL checks that a text is an absolute http or https URL without user name, password or
// fragment. The error does not contain it.
func validURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return errNoURL
	case u.User != nil:
		return errors.New("webhook URL must not hold a user name or password: requests are signed")
	case u.Fragment != "":
		return errors.New("webhook URL must not have a fragment: it would not be sent")
	}
	return nil
}

// Send posts deliveries: those of a group one after the other, groups concurrently.
func (s *Sender) Send(ctx context.Context, deliveries []record.Delivery) []error {
	errs := make([]error, len(deliveries))
	sign, err := s.signer()
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	t := &turn{Sender: s, sign: sign, until: time.Now().Add(s.options.Budget)} //nolint:forbidigo // contexts and timers run on this clock, whatever signs the request
	var lanes sync.WaitGroup
	for _, lane := range laneOrder(deliveries) {
		lanes.Go(func() { t.sendLane(ctx, deliveries, lane, errs) })
	}
	lanes.Wait()
	return errs
}

// laneOrder divides deliveries into sequences that must be sent in order, by index.
func laneOrder(deliveries []record.Delivery) [][]int {
	var lanes [][]int
	of := map[record.GroupKey]int{}
	for i := range deliveries {
		d := &deliveries[i]
		key := record.GroupKey{Stream: d.Stream, Group: d.Group}
		lane, ok := of[key]
		if d.Number == 0 || !ok {
			lane = len(lanes)
			lanes = append(lanes, nil)
		}
		if d.Number != 0 {
			of[key] = lane
		}
		lanes[lane] = append(lanes[lane], i)
	}
	return lanes
}

// A turn is one Send.
type turn struct {
	*Sender
	sign  Signer
	until time.Time // the end of the budget: no further try begins
}

// sendLane posts one delivery after the other, and none after one that failed.
func (t *turn) sendLane(ctx context.Context, deliveries []record.Delivery, lane []int, errs []error) {
	var before error
	for _, i := range lane {
		if before != nil {
			errs[i] = fmt.Errorf("an earlier delivery of the group failed: %w", before)
			continue
		}
		errs[i] = t.deliver(ctx, &deliveries[i])
		if errors.As(errs[i], new(*record.RefusedError)) {
			continue // settled: the next one may be sent
		}
		before = errs[i]
	}
}
