package once_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once"
)

type decorator func(*once.Tokens, once.ReplyFunc, once.GuardConfig) once.Guarded

var decorators = map[string]decorator{"lazy": once.Lazy, "eager": once.Eager, "leased": once.Leased}

func order(id string) once.Message {
	return once.Message{Stream: "orders", ID: id, Body: []byte("a book")}
}

func TestADecoratedHandlerRunsOnce(t *testing.T) {
	for name, decorate := range decorators {
		t.Run(name, func(t *testing.T) {
			runs := 0
			h := decorate(once.NewMemory(), func(_ context.Context, m once.Message) (once.Reply, error) {
				runs++
				return once.Reply{Status: 201, Body: m.Body}, nil
			}, once.GuardConfig{})
			want := []once.Outcome{
				{Kind: once.Processed, Reply: &once.Reply{Status: 201, Body: []byte("a book")}},
				{Kind: once.Duplicate, Reply: &once.Reply{Status: 201, Body: []byte("a book")}},
			}
			for i := range want {
				got, err := h(t.Context(), order("1"))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want[i], got); diff != "" {
					t.Error(diff)
				}
			}
			if runs != 1 {
				t.Errorf("ran %d times", runs)
			}
		})
	}
}

func TestIdentityIsPrincipalStreamAndID(t *testing.T) {
	for name, decorate := range decorators {
		t.Run(name, func(t *testing.T) {
			runs := 0
			h := decorate(once.NewMemory(), func(context.Context, once.Message) (once.Reply, error) {
				runs++
				return once.Reply{}, nil
			}, once.GuardConfig{})
			for _, m := range []once.Message{
				{Stream: "orders", ID: "1"},
				{Stream: "orders", ID: "2"},
				{Stream: "returns", ID: "1"},
				{Stream: "orders", ID: "1", Principal: "eve"},
				{Stream: "orders", Source: "meter", Sequence: 1},
			} {
				if o, err := h(t.Context(), m); err != nil || o.Kind != once.Processed {
					t.Errorf("%+v: got %+v, %v", m, o, err)
				}
			}
			if runs != 5 {
				t.Errorf("ran %d times", runs)
			}
		})
	}
}

func TestADecoratedHandlerReturnsErrorsForKeyReuseAndInvalidMessages(t *testing.T) {
	for name, decorate := range decorators {
		t.Run(name, func(t *testing.T) {
			h := decorate(once.NewMemory(), func(context.Context, once.Message) (once.Reply, error) { return once.Reply{}, nil }, once.GuardConfig{})
			if _, err := h(t.Context(), order("1")); err != nil {
				t.Fatal(err)
			}
			other := order("1")
			other.Body = []byte("a bike")
			if _, err := h(t.Context(), other); !errors.Is(err, once.ErrKeyReuse) {
				t.Errorf("got %v, want ErrKeyReuse", err)
			}
			if _, err := h(t.Context(), order("")); err == nil {
				t.Error("a message without an identity was handled")
			}
		})
	}
}

func TestASecondAttemptGetsTheTimeToRetryAfter(t *testing.T) {
	for _, name := range []string{"eager", "leased"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h once.Guarded
				h = decorators[name](once.NewMemory(), func(ctx context.Context, m once.Message) (once.Reply, error) {
					time.Sleep(time.Second) // of the bubble: no time passes outside
					_, err := h(ctx, m)     // at once with itself
					var busy *once.LeasedError
					if !errors.As(err, &busy) || busy.RetryAfter != 9*time.Second {
						t.Errorf("got %v, want the rest of the lease", err)
					}
					return once.Reply{}, nil
				}, once.GuardConfig{Lease: 10 * time.Second})
				if _, err := h(t.Context(), order("1")); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestAnErrorOfADecoratedHandlerIsItsOwn(t *testing.T) {
	cause := errors.New("no paper")
	for name, decorate := range decorators {
		t.Run(name, func(t *testing.T) {
			h := decorate(once.NewMemory(), func(context.Context, once.Message) (once.Reply, error) { return once.Reply{}, cause }, once.GuardConfig{})
			for range 2 {
				if _, err := h(t.Context(), order("1")); !errors.Is(err, cause) {
					t.Errorf("got %v", err)
				}
			}
		})
	}
}
