package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/effectively-once/once/internal/backoff"
	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/record"
)

// Bounds of the time between two look-ups while a caller waits; it doubles from the shortest to the
// longest.
const (
	shortestPoll = 5 * time.Millisecond
	longestPoll  = 250 * time.Millisecond
)

// Poll returns an Await that looks the message up again and again, at first after 5 ms, at last
// every 250 ms. If one look-up fails, it continues: the message is on the queue, and the next one
// may find it done.
func Poll(e Engine) func(context.Context, record.Message) (admission.State, error) {
	return func(ctx context.Context, m record.Message) (admission.State, error) {
		for pause := shortestPoll; ; pause = min(2*pause, longestPoll) {
			if err := backoff.Sleep(ctx, pause); err != nil {
				return admission.State{}, err
			}
			if state, err := e.Status(ctx, m); err == nil && (settled(state.Status) || state.OfOther(&m)) {
				return state, nil
			}
		}
	}
}

func settled(status admission.Status) bool {
	return status == admission.StatusDone || status == admission.StatusRejected || status == admission.StatusDeleted
}

// await waits as long as the caller prefers. If waiting fails, the message is still accepted; the
// zero State then reports no more than that.
func (s *server) await(r *http.Request, a *answer) admission.State {
	ctx, cancel := context.WithTimeout(r.Context(), time.Duration(a.wait)*time.Second)
	defer cancel()
	state, err := s.Await(ctx, *a.message)
	if err == nil {
		return state
	}
	if ctx.Err() == nil {
		s.Log.LogAttrs(ctx, slog.LevelWarn, "wait for message ended early", append(a.message.LogAttrs(s.LogKeys), slog.Any("error", err))...)
	}
	return admission.State{}
}

// enter counts a caller that waits for a handler, until leave is called. If there are too many, it
// returns rate-limited: nothing was done yet.
func (s *server) enter() (leave func(), err error) {
	leave = func() { s.waiting.Add(-1) }
	if s.waiting.Add(1) > int64(s.MaxWaiting) {
		leave()
		detail := fmt.Sprintf("%d callers wait for handlers already. Repeat the request under the same key, or send a message without Prefer: wait.", s.MaxWaiting)
		return nil, problem.New(problem.RateLimited, detail)
	}
	return leave, nil
}
