package webhook

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/record"
)

// A script answers with one status after the other, and then repeats the last one. "429 7" has a
// Retry-After; a status of 0 is a broken connection.
type script struct {
	start time.Time
	steps []step
	at    []time.Duration
}

type step struct {
	code       int
	retryAfter string
}

func (s *script) RoundTrip(*http.Request) (*http.Response, error) {
	s.at = append(s.at, since(s.start))
	now := s.steps[0]
	if len(s.steps) > 1 {
		s.steps = s.steps[1:]
	}
	if now.code == 0 {
		return nil, errors.New("connection reset")
	}
	return &http.Response{
		StatusCode: now.code, Header: http.Header{"Retry-After": {now.retryAfter}}, Body: io.NopCloser(strings.NewReader("answer")),
	}, nil
}

// pass lets time pass.
func pass(d time.Duration) { time.Sleep(d) } // virtual time: only called in bubbles

// since returns the time from start until now.
func since(start time.Time) time.Duration { return time.Since(start) } // virtual time: only called in bubbles

// play sends deliveries through a script in a bubble of its own time.
func play(t *testing.T, options Options, steps []step, then func(t *testing.T, s *Sender, transport *script)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		transport := &script{start: time.Now(), steps: steps}
		options.Transport = transport
		then(t, newSender(t, "http://shop.example", options), transport)
	})
}

func TestATemporaryErrorIsRetriedWithinTheBudget(t *testing.T) {
	for _, code := range []int{0, 408, 425, 429, 500, 503} {
		play(t, Options{}, []step{{code: code}, {code: code}, {code: 200}}, func(t *testing.T, s *Sender, transport *script) {
			errs := s.Send(t.Context(), []record.Delivery{single("x")})
			if errs[0] != nil || len(transport.at) != 3 {
				t.Errorf("%d: %v after %v", code, errs[0], transport.at)
			}
		})
	}
}

func TestAPermanentErrorIsNotRetried(t *testing.T) {
	for _, code := range []int{301, 400, 401, 404, 422} {
		play(t, Options{}, []step{{code: code}}, func(t *testing.T, s *Sender, transport *script) {
			errs := s.Send(t.Context(), []record.Delivery{single("x")})
			if errs[0] == nil || errors.As(errs[0], new(*record.RefusedError)) || len(transport.at) != 1 {
				t.Errorf("%d: %v after %v", code, errs[0], transport.at)
			}
		})
	}
}

func TestNoTryBeginsAfterTheBudget(t *testing.T) {
	play(t, Options{Budget: 3 * time.Second}, []step{{code: 500}}, func(t *testing.T, s *Sender, transport *script) {
		errs := s.Send(t.Context(), []record.Delivery{single("x")})
		last := transport.at[len(transport.at)-1]
		if errs[0] == nil || last > 3*time.Second || len(transport.at) < 3 {
			t.Errorf("%v after %v", errs[0], transport.at)
		}
	})
}

func TestRetryAfterIsHonoured(t *testing.T) {
	play(t, Options{}, []step{{429, "7"}, {code: 200}}, func(t *testing.T, s *Sender, transport *script) {
		errs := s.Send(t.Context(), []record.Delivery{single("x")})
		if errs[0] != nil {
			t.Error(errs[0])
		}
		if diff := cmp.Diff([]time.Duration{0, 7 * time.Second}, transport.at); diff != "" {
			t.Error(diff)
		}
	})
}

func TestARetryAfterBeyondTheBudgetDelaysLaterSends(t *testing.T) {
	play(t, Options{}, []step{{503, "60"}, {code: 200}}, func(t *testing.T, s *Sender, transport *script) {
		for range 2 {
			if errs := s.Send(t.Context(), []record.Delivery{single("x")}); errs[0] == nil {
				t.Error("settled")
			}
		}
		pass(60 * time.Second)
		if errs := s.Send(t.Context(), []record.Delivery{single("x")}); errs[0] != nil {
			t.Error(errs[0])
		}
		if diff := cmp.Diff([]time.Duration{0, 60 * time.Second}, transport.at); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTheContextEndsTheTries(t *testing.T) {
	play(t, Options{}, []step{{code: 500}}, func(t *testing.T, s *Sender, transport *script) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		errs := s.Send(ctx, []record.Delivery{numbered("a", 1), numbered("a", 2)})
		if !errors.Is(errs[0], context.DeadlineExceeded) || errs[1] == nil || since(transport.start) > time.Second {
			t.Errorf("%v after %v", errs, since(transport.start))
		}
	})
}

func TestRetryAfterIsSecondsOrADate(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "5": 5 * time.Second, "-1": 0, "soon": 0, "999999": maxSilence, "99999999999999999999": 0,
		"Fri, 02 Jan 2026 03:04:35 GMT": 30 * time.Second, "Fri, 02 Jan 2026 03:04:00 GMT": 0, "Fri, 02 Jan 2099 03:04:00 GMT": maxSilence,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}
