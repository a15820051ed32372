package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/effectively-once/once/internal/record"
)

// maxAnswer is how much of a response is read, in bytes.
const maxAnswer = 64 << 10

// maxSilence is the longest Retry-After that is honoured.
const maxSilence = time.Hour

// deliver retries until the delivery is done or refused, or the budget is used up. There is at
// least one try, unless the destination is failing.
func (t *turn) deliver(ctx context.Context, d *record.Delivery) error {
	left, start := time.Until(t.until), t.options.Now()
	var last error
	try := func() (struct{}, error) {
		last = t.try(ctx, d)
		return struct{}{}, last
	}
	// 0 would mean no limit.
	_, err := backoff.Retry(ctx, try, backoff.WithBackOff(newBackOff()), backoff.WithMaxElapsedTime(max(left, 1)))
	// if the caller's context ended, the destination may be fine
	if err != nil && !isPermanent(last) && ctx.Err() == nil {
		t.breaker.failed(start)
	}
	if later, ok := errors.AsType[*laterError](err); ok {
		err = later.Err
	}
	if err != nil && !errors.As(err, new(*record.RefusedError)) {
		return fmt.Errorf("post to %s: %w", t.host, err)
	}
	return err
}

// newBackOff returns pauses of 0.2 s, then 1.7 times as long each time up to 5 s, plus or minus
// half.
func newBackOff() backoff.BackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval: 200 * time.Millisecond, Multiplier: 1.7, RandomizationFactor: 0.5, MaxInterval: 5 * time.Second,
	}
}

// A laterError is a failure with a Retry-After.
type laterError struct {
	Err  error
	wait backoff.RetryAfterError
}

func (e *laterError) Error() string   { return e.Err.Error() }
func (e *laterError) Unwrap() []error { return []error{e.Err, &e.wait} }

func isPermanent(err error) bool {
	_, ok := errors.AsType[*backoff.PermanentError](err)
	return ok
}

// try posts once, if the destination is not failing or this is the probe. If no further try within
// this Send could succeed, or none is allowed, the error is a *backoff.PermanentError.
func (t *turn) try(ctx context.Context, d *record.Delivery) error {
	// before the wait for a slot: hanging requests may hold all slots
	probe, err := t.breaker.admit(t.silence())
	if err != nil {
		return backoff.Permanent(err)
	}
	if probe {
		defer t.breaker.probed()
	}
	select {
	case t.slots <- struct{}{}:
		defer func() { <-t.slots }()
	case <-ctx.Done():
		return backoff.Permanent(context.Cause(ctx))
	}
	switch wait := t.silence(); {
	case probe && wait > 0, !probe && t.breaker.failing(): // the failure began during the wait
		return backoff.Permanent(errPausing)
	case wait > 0:
		return later(fmt.Errorf("%w: the destination asked to wait, by Retry-After", record.ErrUntried), wait)
	}
	if err = t.post(ctx, d); err != nil && probe {
		return backoff.Permanent(err)
	}
	return err
}

// post makes one request.
func (t *turn) post(ctx context.Context, d *record.Delivery) error {
	request, err := t.request(ctx, d)
	if err != nil {
		return backoff.Permanent(err)
	}
	response, err := t.client.Do(request)
	if err != nil {
		return withoutURL(err)
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(response.Body, record.MaxAnswer)) // as much as arrives
	_, _ = io.CopyN(io.Discard, response.Body, maxAnswer-record.MaxAnswer) // to reuse the connection
	return t.judge(response, body)
}

// judge returns nil if the response says that the delivery is done.
func (t *turn) judge(response *http.Response, body []byte) error {
	code := response.StatusCode
	if code >= 200 && code < 300 {
		t.breaker.succeeded()
		return nil
	}
	err := &record.AnswerError{Status: code, Text: strings.TrimSpace(strconv.Itoa(code) + " " + http.StatusText(code)), Body: string(body)}
	switch {
	case code == http.StatusGone:
		return backoff.Permanent(t.refused())
	case code >= 500, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout, code == http.StatusTooEarly:
		if wait := retryAfter(response.Header.Get("Retry-After"), t.options.Now()); wait > 0 {
			t.silent.Store(t.options.Now().Add(wait).UnixMilli())
			return later(err, wait)
		}
		return err
	}
	return backoff.Permanent(err)
}

func (s *Sender) refused() *record.RefusedError {
	return &record.RefusedError{Reason: record.ReasonGone, Detail: s.host + " answered 410 Gone"}
}

// silence returns how long the destination still asks not to be called.
func (s *Sender) silence() time.Duration {
	return time.UnixMilli(s.silent.Load()).Sub(s.options.Now())
}

func later(err error, wait time.Duration) error {
	return &laterError{Err: err, wait: backoff.RetryAfterError{Duration: wait}}
}

// retryAfter parses seconds or a date; it returns 0 for any other value and for the past.
func retryAfter(value string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, maxSilence)
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, min(at.Sub(now), maxSilence))
	}
	return 0
}

// withoutURL removes the URL from an error of net/http, because it may contain secrets.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}
