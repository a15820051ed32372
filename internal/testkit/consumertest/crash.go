package consumertest

import (
	"context"
	"net/http"
	"os"
	"time"

	"github.com/effectively-once/once/client"
)

// A Crash says where a consumer crashes.
type Crash struct {
	// Before and After are the numbers of entries: before or after the work of one.
	Before, After uint64
	// Commit is which commit to the server: before it is sent, or if Sent is true, when the server
	// has answered.
	Commit int
	Sent   bool
}

// A Child is a consumer that crashes, as JSON for a process of its own.
type Child struct {
	URL                        string
	Stream, Name, Holder, Take string
	Lease, Wait                time.Duration
	Max                        int
	Crash                      Crash
}

// NewChild returns a consumer of a session.
func NewChild(url string, o client.SessionOptions, x Crash) Child {
	return Child{URL: url, Stream: o.Stream, Name: o.Name, Holder: o.Holder, Take: string(o.Take), Lease: o.Lease, Wait: o.Wait, Max: o.Max, Crash: x}
}

// Run runs the consumer. At its crash it kills its process.
func (c *Child) Run(ctx context.Context, consume Consume) error {
	return c.run(ctx, http.DefaultTransport, consume, func() {
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Kill()
		}
		select {}
	})
}

func (c *Child) run(ctx context.Context, transport http.RoundTripper, consume Consume, crash func()) error {
	l := &link{next: transport, hook: nth("commit", c.Crash.Commit, func(_ string, _ *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
		if c.Crash.Sent {
			discard(send)
		}
		crash()
		return nil, errCut
	})}
	remote, err := l.newClient(c.URL)
	if err != nil {
		return err
	}
	o := client.SessionOptions{Stream: c.Stream, Name: c.Name, Holder: c.Holder, Take: client.Take(c.Take), Lease: c.Lease, Wait: c.Wait, Max: c.Max}
	return consume(ctx, remote, o, nil, Work{Before: at(c.Crash.Before, crash), After: at(c.Crash.After, crash)})
}

// at returns a function that calls f for the entry with a number, once.
func at(number uint64, f func()) func(*client.Entry) {
	done := false
	return func(e *client.Entry) {
		if e.Number == number && !done {
			done = true
			f()
		}
	}
}
