package oncetest_test

import (
	"context"
	"testing"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/oncetest"
)

type stock struct{ OnHand int }

func TestATypoInATestFailsIt(t *testing.T) {
	s := oncetest.New("mail")
	once.Handle(s.System, "stock", func(_ context.Context, a *once.Attempt[stock], _ once.Message) error {
		a.State.OnHand = 7
		return nil
	})
	if o := s.Call(t.Context(), once.Message{Stream: "stock", ID: "1", Group: "g"}); o.Kind != once.Processed {
		t.Fatalf("%+v", o)
	}
	if state, err := oncetest.State[stock](t.Context(), s, "stock", "g"); err != nil || state.OnHand != 7 {
		t.Errorf("%+v, %v", state, err)
	}
	if state, err := oncetest.State[struct{ Other int }](t.Context(), s, "stock", "g"); err == nil {
		t.Errorf("a type that does not fit: %+v", state)
	}
	if state, err := oncetest.State[stock](t.Context(), s, "stok", "g"); err == nil {
		t.Errorf("an unknown stream: %+v", state)
	}
	defer func() {
		if recover() == nil {
			t.Error("an unknown destination has no effects, and nothing fails")
		}
	}()
	s.Sent("mial")
}
