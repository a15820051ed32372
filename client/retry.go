package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// maxAnswer is how many bytes of a response are read.
const maxAnswer = 16 << 20

// request is the request of every try of a call.
type request struct {
	method string
	url    string
	header http.Header
	body   []byte
	// content, if set, returns the body of the next try
	content func() []byte
	// how long the server was asked to wait, in addition to the timeout of a try
	wait time.Duration
}

// answer is a complete HTTP response. A truncated response counts as none.
type answer struct {
	status int
	header http.Header
	body   []byte
	// repeated is true if the transport has sent an earlier copy of the request by itself, as
	// net/http does if an old connection ends without a response: the server may have accepted that
	// copy. If there is no response, it is true if any copy was sent.
	repeated bool
}

const (
	// longest is the longest accepted wait, about 68 years. A time.Duration can hold four times
	// that, so that spread can't overflow.
	longest = math.MaxInt32 * time.Second
	// longestOfStrangers is the longest wait that is accepted from a server other than once: a
	// temporary proxy must not stop a sender for days.
	longestOfStrangers = time.Minute
)

// retryAfter returns the wait in Retry-After, in seconds or as an HTTP date relative to the
// response's Date header. It returns 0 if there is none, and at most longest.
func (a answer) retryAfter() time.Duration {
	text := a.header.Get("Retry-After")
	// on ErrRange the result is the largest number
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(text)
	now, noDate := http.ParseTime(a.header.Get("Date"))
	if err != nil || noDate != nil {
		return 0
	}
	return min(max(0, at.Sub(now)), longest)
}

func (c *Client) try(ctx context.Context, r request) (answer, error) {
	var copies atomic.Int64
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { copies.Add(1) }})
	if r.content != nil {
		r.body = r.content()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, r.url, bytes.NewReader(r.body))
	if err != nil {
		return answer{}, fmt.Errorf("make request: %w", err)
	}
	maps.Copy(req.Header, c.options.Header)
	maps.Copy(req.Header, r.header)
	resp, err := c.options.HTTP.Do(req)
	if err != nil {
		return answer{repeated: copies.Load() > 0}, err
	}
	var body bytes.Buffer
	body.Grow(int(min(max(resp.ContentLength, 0), maxAnswer)) + bytes.MinRead) // so that it is read without growing
	_, err = body.ReadFrom(io.LimitReader(resp.Body, maxAnswer+1))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return answer{}, fmt.Errorf("read answer: %w", err)
	}
	if body.Len() > maxAnswer {
		return answer{}, backoff.Permanent(fmt.Errorf("read answer: more than %d bytes", maxAnswer))
	}
	return answer{resp.StatusCode, resp.Header, body.Bytes(), copies.Load() > 1}, nil
}

// call repeats a request until read accepts a response. read returns the result, or the problem in
// the response.
func call[T any](ctx context.Context, c *Client, r request, read func(answer) (T, *Problem)) (T, error) {
	var last error
	ambiguous, sent := false, false // sent: a try may have reached a server
	attempt := func() (result T, err error) {
		ctx, cancel := context.WithTimeout(ctx, c.options.TryTimeout+r.wait)
		defer cancel()
		a, err := c.try(ctx, r)
		switch {
		case err != nil && unconnected(err) && !sent && !a.repeated:
			last = err
			if c.options.NeedServer {
				err = backoff.Permanent(err)
			}
			return result, err
		case err != nil:
			ambiguous, sent, last = true, true, err
			return result, err
		}
		sent = true
		result, p := read(a)
		if p == nil {
			return result, nil
		}
		ambiguous = ambiguous || a.repeated
		p.Ambiguous = ambiguous || p.Type == ""
		last = p
		if !p.again() {
			return result, backoff.Permanent(p)
		}
		ambiguous = true
		if p.RetryAfter > 0 {
			return result, &backoff.RetryAfterError{Duration: spread(p.RetryAfter)}
		}
		return result, p
	}
	result, err := backoff.Retry(ctx, attempt, backoff.WithBackOff(c.backOff()), backoff.WithMaxElapsedTime(c.options.MaxElapsed),
		backoff.WithNotify(func(_ error, wait time.Duration) { c.options.OnRetry(last, wait) }))
	if err == nil {
		return result, nil
	}
	err = verdict(ctx, err, last)
	if open, ok := errors.AsType[*UnacknowledgedError](err); ok && !sent {
		open.Unsent = true
		if errors.Is(last, syscall.ECONNREFUSED) {
			open.Err = fmt.Errorf("nothing listens on %s: %w", c.base.Redacted(), open.Err)
		}
	}
	return result, err
}

// unconnected reports whether a try failed before it sent anything: nothing listens at the address,
// or the certificate of the server can't be verified.
func unconnected(err error) bool {
	_, unverified := errors.AsType[*tls.CertificateVerificationError](err)
	return unverified || errors.Is(err, syscall.ECONNREFUSED)
}

// verdict returns the refusal that ended a call, or an UnacknowledgedError.
func verdict(ctx context.Context, err, last error) error {
	var p *Problem
	if errors.As(err, &p) && !p.again() {
		return p
	}
	open := &UnacknowledgedError{Err: context.Cause(ctx)}
	if errors.As(last, &open.Last) {
		return open
	}
	switch {
	case open.Err == nil:
		open.Err = last
	case !errors.Is(last, open.Err):
		open.Err = fmt.Errorf("%w; the last try: %w", open.Err, last)
	}
	return open
}

// spread adds up to a tenth, so that callers that were rejected together do not retry together.
func spread(d time.Duration) time.Duration {
	return d + rand.N(d/10+1) //nolint:gosec // nobody gains from guessing it
}

func (c *Client) backOff() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = c.options.MinBackoff, c.options.MaxBackoff
	b.Multiplier, b.RandomizationFactor = 2, 0.5
	return b
}
