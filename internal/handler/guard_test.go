package handler_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/effectively-once/once/internal/handler"
	"github.com/effectively-once/once/internal/record"
)

// A fake is a caller that a test answers.
type fake func(ctx context.Context) ([]byte, error)

func (f fake) Call(ctx context.Context, _ string, _ []byte) ([]byte, error) { return f(ctx) }

func one() *record.Batch {
	return &record.Batch{ID: "x", Group: record.GroupKey{Stream: "s", Group: "g"}, Messages: []record.Message{{ID: "a"}}}
}

var errAway = errors.New("connection refused")

// A world is a handler on a clock of its own.
type world struct {
	*handler.Handler
	now   time.Time
	calls int
	err   error
	text  string
}

func newWorld() *world {
	w := &world{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), text: `{"messages":[{"id":"a"}]}`}
	w.Handler = handler.New(fake(func(context.Context) ([]byte, error) {
		w.calls++
		return []byte(w.text), w.err
	}), handler.Options{Stream: "s", Now: func() time.Time { return w.now }})
	return w
}

func (w *world) handle(t *testing.T, times int) (err error) {
	t.Helper()
	for range times {
		err = w.Handle(t.Context(), one())
	}
	return err
}

func TestAHandlerThatIsDownIsNotCalledUntilTheNextTry(t *testing.T) {
	w := newWorld()
	w.err = errAway
	err := w.handle(t, 9)
	if w.calls != 5 {
		t.Errorf("%d calls, want 5 before the others fail at once", w.calls)
	}
	next, only := record.NextTry(err)
	if !only || !errors.Is(err, record.ErrUntried) || !errors.Is(err, errAway) {
		t.Errorf("the error is %v, want one that says that nothing was tried, why, and when to try again", err)
	}
	if wait := next.Sub(w.now); wait <= 0 || wait > 3*time.Second {
		t.Errorf("the next try is in %v, want a short pause", wait)
	}
	w.now = w.now.Add(10 * time.Second)
	if err = w.handle(t, 3); w.calls != 6 || !errors.Is(err, record.ErrUntried) {
		t.Errorf("%d calls after the pause, and %v; want one more that tries it", w.calls, err)
	}
	w.err, w.now = nil, w.now.Add(time.Minute)
	if err = w.handle(t, 3); err != nil || w.calls != 9 {
		t.Errorf("%v after %d calls, want that it is called again once it has answered", err, w.calls)
	}
}

func TestThePausesGrowToHalfAMinute(t *testing.T) {
	w := newWorld()
	w.err = errAway
	begun := w.now
	_ = w.handle(t, 5)
	for range 20 {
		w.now = w.now.Add(46 * time.Second) // more than any pause
		_ = w.handle(t, 1)
	}
	if w.calls != 25 {
		t.Errorf("%d calls, want one after each pause", w.calls)
	}
	next, _ := record.NextTry(w.handle(t, 1))
	if wait := next.Sub(w.now); wait < 15*time.Second || wait > 46*time.Second {
		t.Errorf("after %v the pause is %v, want about 30s", w.now.Sub(begun), wait)
	}
}

func TestAShorterLongestPauseIsKept(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	h := handler.New(fake(func(context.Context) ([]byte, error) { return nil, errAway }), handler.Options{Stream: "s", MaxPause: 2 * time.Second, Now: func() time.Time { return now }})
	for range 20 {
		now = now.Add(4 * time.Second) // more than any pause
		_ = h.Handle(t.Context(), one())
	}
	next, _ := record.NextTry(h.Handle(t.Context(), one()))
	if wait := next.Sub(now); wait <= 0 || wait > 4*time.Second {
		t.Errorf("the next try is in %v, want about 2s", wait)
	}
}

func TestAnErrorInTheHandlersWordsDoesNotHoldUpOtherMessages(t *testing.T) {
	for name, change := range map[string]func(w *world){
		"an error":         func(w *world) { w.err = handler.Failed("no such item") },
		"an answer of its": func(w *world) { w.text = `{"messages":[{"id":"b"}]}` },
	} {
		w := newWorld()
		change(w)
		if err := w.handle(t, 20); w.calls != 20 || err == nil || errors.Is(err, record.ErrUntried) {
			t.Errorf("%s: %d calls, %v; want every message tried", name, w.calls, err)
		}
	}
	w := newWorld()
	w.text = "<html>another server</html>"
	if err := w.handle(t, 20); w.calls != 5 || err == nil {
		t.Errorf("%d calls of a server that is no handler, want 5", w.calls)
	}
}

func TestACallerThatStopsWaitingSaysNothingAboutTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		h := handler.New(fake(func(ctx context.Context) ([]byte, error) {
			calls++
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}), handler.Options{Stream: "s"})
		for range 10 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if err := h.Handle(ctx, one()); err == nil {
				t.Error("there is no error, want that of the context")
			}
			cancel()
		}
		if calls != 10 {
			t.Errorf("%d calls were made, want 10", calls)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := h.Handle(ctx, one()); errors.Is(err, record.ErrUntried) {
			t.Errorf("the error is %v, want that the handler does not count as down", err)
		}
	})
}

func TestAHandlerThatHangsUntilTheDeadlineOfItsCallersIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handler.New(fake(func(ctx context.Context) ([]byte, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}), handler.Options{Stream: "s", Timeout: time.Minute})
		handle := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 28*time.Second)
			defer cancel()
			return h.Handle(ctx, one())
		}
		for range 5 {
			if err := handle(); errors.Is(err, record.ErrUntried) {
				t.Errorf("the error is %v, want that the handler was called", err)
			}
		}
		if err := handle(); !errors.Is(err, record.ErrUntried) {
			t.Errorf("the error is %v, want that the handler is not called again at once", err)
		}
	})
}

func TestWaitingForACallOfAnotherMessageIsNoFailedTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := handler.New(fake(func(ctx context.Context) ([]byte, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}), handler.Options{Stream: "s", Concurrency: 1})
		go func() { _ = h.Handle(t.Context(), one()) }()
		synctest.Wait()
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 28*time.Second)
		defer cancel()
		err := h.Handle(ctx, one())
		if _, later := record.NextTry(err); !later || !errors.Is(err, record.ErrUntried) {
			t.Errorf("the error is %v, want that the handler was not called, and when it is called", err)
		}
		if waited := time.Since(begun); waited > 2*time.Second {
			t.Errorf("the message waited %v; messages of other streams wait with it", waited)
		}
	})
}

func TestNoMoreCallsAreMadeAtATimeThanAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 3
		var mu sync.Mutex
		running, peak := 0, 0
		h := handler.New(fake(func(context.Context) ([]byte, error) {
			mu.Lock()
			running++
			peak = max(peak, running)
			mu.Unlock()
			time.Sleep(time.Millisecond)
			mu.Lock()
			running--
			mu.Unlock()
			return []byte(`{"messages":[{"id":"a"}]}`), nil
		}), handler.Options{Stream: "s", Concurrency: most})
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if err := h.Handle(t.Context(), one()); err != nil {
					t.Error("every call must succeed:", err)
				}
			})
		}
		all.Wait()
		if peak != most {
			t.Errorf("%d calls ran at a time, want %d", peak, most)
		}
	})
}

func TestEffectsOfAMessageKeepItsTrace(t *testing.T) {
	large := strings.Repeat("x", record.MaxHeaders-len("A")-len("application/json"))
	h := handler.New(fake(func(context.Context) ([]byte, error) {
		return []byte(`{"messages":[{"id":"a","effects":[{"to":"x"},{"to":"x","headers":{"Traceparent":"own"}},{"to":"x","headers":{"Tracestate":"own"}},` +
			`{"to":"x","body":1,"headers":{"A":"` + large + `"}}]}]}`), nil
	}), handler.Options{Stream: "s", Destinations: []string{"x"}})
	b := one()
	b.Messages[0].Headers = map[string]string{"traceparent": "00-1", "tracestate": "a=b"}
	if err := h.Handle(t.Context(), b); err != nil {
		t.Fatal("the answer must be taken:", err)
	}
	effects := b.Answers()[0].Attempt.Effects()
	if got := effects[0].Headers; got["traceparent"] != "00-1" || got["tracestate"] != "a=b" {
		t.Errorf("the headers are %v, want the trace of the message", got)
	}
	if got := effects[1].Headers; len(got) != 1 || got["Traceparent"] != "own" {
		t.Errorf("the headers are %v, want its own trace", got)
	}
	if got := effects[2].Headers; len(got) != 1 || got["Tracestate"] != "own" {
		t.Errorf("the headers are %v, want its own trace", got)
	}
	if got := effects[3].Headers; len(got) != 1 || got["A"] != large {
		t.Errorf("%d headers, want those of the handler alone: they have no room for the trace", len(got))
	}
}

func TestAnAnswerDelaysEffectsAndChangesTimers(t *testing.T) {
	text := `{"messages":[{"id":"a","effects":[{"to":"x","after":"7d"},{"timer":"late","after":"15m","body":1},{"cancel":"early"}]}]}`
	h := handler.New(fake(func(context.Context) ([]byte, error) { return []byte(text), nil }), handler.Options{Stream: "s", Destinations: []string{"x"}})
	b := one()
	b.Now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := h.Handle(t.Context(), b); err != nil {
		t.Fatal("the answer must be taken:", err)
	}
	a := b.Answers()[0].Attempt
	if e := a.Effects(); len(e) == 0 || e[0].To[0] != "x" || !e[0].NotBefore.Equal(b.Now.AddDate(0, 0, 7)) {
		t.Errorf("the effects are %+v, want the first one to x after 7 days", e)
	}
	timers := a.Timers()
	if len(timers) != 2 || timers[0].Name != "late" || timers[1].Name != "early" || timers[1].Effect != nil {
		t.Fatalf("the timers are %+v, want late set and early cancelled", timers)
	}
	if set := timers[0].Effect; !set.NotBefore.Equal(b.Now.Add(15*time.Minute)) || string(set.Body) != "1" {
		t.Errorf("the timer is %+v, want the body 1 after 15 minutes", set)
	}
}

func TestALargeBatchIsAskedInParts(t *testing.T) {
	h := handler.New(fake(func(context.Context) ([]byte, error) { return []byte(`{"messages":[{"id":"0"},{"id":"1"}]}`), nil }), handler.Options{Stream: "s"})
	b := one()
	b.Messages = nil
	for i := range 9 {
		b.Messages = append(b.Messages, record.Message{ID: strconv.Itoa(i), Body: make([]byte, record.MaxBody)})
		b.Messages[i].Body[0] = 0xff
	}
	if err := h.Handle(t.Context(), b); err != nil || len(b.Answers()) != 2 {
		t.Errorf("%d messages are answered, %v; want the first 2", len(b.Answers()), err)
	}
}

func TestTheWordsOfAHandlerAreShownWithoutControlCharacters(t *testing.T) {
	if got := handler.Failed(" a\nb" + strings.Repeat("x", 1000)).Error(); !strings.HasPrefix(got, `the handler failed: a\nbxx`) || len(got) > 600 {
		t.Errorf("the error is %q, want the beginning of the text on one line", got)
	}
	if got := handler.Failed("").Error(); got != "the handler failed: it gave no reason" {
		t.Errorf("the error is %q, want that there is no reason", got)
	}
}

func TestTimersAndDelaysCountFromTheTimeOfTheBatch(t *testing.T) {
	h := handler.New(fake(func(context.Context) ([]byte, error) {
		return []byte(`{"messages":[{"id":"a","effects":[{"to":"x","after":"30s","body":1},{"timer":"remind","after":"15m","body":2},{"cancel":"old"}]}]}`), nil
	}), handler.Options{Stream: "s", Destinations: []string{"x"}})
	b := one()
	b.Now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := h.Handle(t.Context(), b); err != nil {
		t.Fatal("the answer must be taken:", err)
	}
	a := b.Answers()[0].Attempt
	if effects := a.Effects(); len(effects) != 2 || !effects[0].NotBefore.Equal(b.Now.Add(30*time.Second)) {
		t.Errorf("the effects are %+v, want one in 30 s, and that of the timer", effects)
	}
	timers := a.Timers()
	if len(timers) != 2 || timers[0].Name != "remind" || !timers[0].Effect.NotBefore.Equal(b.Now.Add(15*time.Minute)) || string(timers[0].Effect.Body) != "2" || timers[1].Name != "old" || timers[1].Effect != nil {
		t.Errorf("the timers are %+v, want one that is set and one that is cancelled", timers)
	}
}

func TestAnAnswerThatNamesAnotherAttemptIsRefused(t *testing.T) {
	for attempt, refused := range map[string]bool{`"x"`: false, `"y"`: true, `7`: true} {
		w := newWorld()
		w.text = `{"messages":[{"id":"a"}],"attempt":` + attempt + `}`
		if err := w.handle(t, 1); (err != nil) != refused {
			t.Errorf("attempt %s: %v, want it refused: %v", attempt, err, refused)
		}
	}
}

func TestAnErrorThatNamesTheStateIsNoFailureOfTheMessage(t *testing.T) {
	for text, want := range map[string]bool{
		"StateError: state-unreadable: a field":   true,
		"state-unreadable: x":                     true,
		"no state":                                false,
		"ValueError: state-unreadable: of a body": false,
		"no item state-unreadable: x":             false,
	} {
		for _, state := range []string{"", `{"n":1}`} {
			w, b := newWorld(), one()
			w.err, b.State = handler.Failed(text), []byte(state)
			if got := errors.Is(w.Handle(t.Context(), b), record.ErrUnreadable); got != (want && state != "") {
				t.Errorf("%s, state %q: %t", text, state, got)
			}
		}
	}
}
