package client

import (
	"bytes"
	"context"
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
	"time"

	"github.com/cenkalti/backoff/v5"
)

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 16 << 20

// request is what every try of a call sends.
type request struct {
	method string
	url    string
	header http.Header
	body   []byte
	wait   time.Duration // what the server was asked to wait, on top of the time of a try
}

// answer is an HTTP answer, read whole: one that breaks off is no answer.
type answer struct {
	status int
	header http.Header
	body   []byte
	// repeated is true when the transport has sent the request more than once by itself, as that of net/http does where an old connection ends in place of
	// an answer: an earlier copy may have been taken.
	repeated bool
}

const (
	// longest is the longest wait that is read from an answer, some 68 years. A time.Duration has four times that, so that spread can add to it.
	longest = math.MaxInt32 * time.Second
	// longestOfStrangers is the longest wait that something else than a once server can ask for: what stands in the way for a moment must not stop a
	// sender for days.
	longestOfStrangers = time.Minute
)

// retryAfter reads seconds, or an HTTP date by the clock of the server, as its Date header tells it; 0 where there is neither. More than longest is longest.
func (a answer) retryAfter() time.Duration {
	text := a.header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil || errors.Is(err, strconv.ErrRange) { // which comes with the largest number
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
	req, err := http.NewRequestWithContext(ctx, r.method, r.url, bytes.NewReader(r.body))
	if err != nil {
		return answer{}, fmt.Errorf("make request: %w", err)
	}
	maps.Copy(req.Header, c.options.Header)
	maps.Copy(req.Header, r.header)
	resp, err := c.options.HTTP.Do(req)
	if err != nil {
		return answer{}, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return answer{}, fmt.Errorf("read answer: %w", err)
	}
	if len(body) > maxAnswer {
		return answer{}, backoff.Permanent(fmt.Errorf("read answer: more than %d bytes", maxAnswer))
	}
	return answer{resp.StatusCode, resp.Header, body, copies.Load() > 1}, nil
}

// call repeats a request until read takes an answer. read gives the result, or the problem that the answer is.
func call[T any](ctx context.Context, c *Client, r request, read func(answer) (T, *Problem)) (T, error) {
	var last error
	ambiguous := false
	attempt := func() (result T, err error) {
		ctx, cancel := context.WithTimeout(ctx, c.options.TryTimeout+r.wait)
		defer cancel()
		a, err := c.try(ctx, r)
		if err != nil {
			ambiguous, last = true, err
			return result, err
		}
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
	return result, verdict(ctx, err, last)
}

// verdict tells a refusal from a call that ended without an answer.
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

// spread adds up to a tenth: callers that were sent away together do not come back together.
func spread(d time.Duration) time.Duration {
	return d + rand.N(d/10+1) //nolint:gosec // nobody gains from guessing it
}

func (c *Client) backOff() backoff.BackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = c.options.MinBackoff, c.options.MaxBackoff
	b.Multiplier, b.RandomizationFactor = 2, 0.5
	return b
}
