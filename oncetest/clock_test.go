package oncetest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/oncetest"
)

// Order is the state of one order.
type Order struct{ Paid bool }

// pay cancels an order that is not paid within a quarter of an hour, and sends a survey a week
// after the payment.
func pay(_ context.Context, a *once.Attempt[Order], m once.Message) error {
	switch {
	case m.Timer == "unpaid":
		a.Send("mail", once.Text(m.Group+" is cancelled"))
	case string(m.Body) == "paid":
		a.State.Paid = true
		a.Cancel("unpaid")
		a.SendAfter("mail", 7*24*time.Hour, once.Text(m.Group+": how was it?"))
	default:
		a.SetTimer("unpaid", 15*time.Minute, once.Text(""))
	}
	return nil
}

// Advance moves the clock of the system: what becomes due is delivered, in its order.
func ExampleSystem_Advance() {
	ctx := context.Background()
	sys := oncetest.New("mail")
	once.Handle(sys.System, "orders", pay)
	send := func(id, order, body string) {
		sys.Call(ctx, once.Message{Stream: "orders", ID: id, Group: order, Body: []byte(body)})
	}
	show := func(when string) {
		fmt.Println(when)
		for _, e := range sys.Sent("mail") {
			fmt.Println(" ", e.Identity, e.Body)
		}
	}

	send("1", "ann's order", "new")
	send("2", "ben's order", "new")
	send("3", "ann's order", "paid")
	fmt.Println(sys.Advance(ctx, 15*time.Minute))
	show("after a quarter of an hour")
	fmt.Println(sys.Advance(ctx, 7*24*time.Hour))
	show("after a week")
	// Output:
	// <nil>
	// after a quarter of an hour
	//   orders/ben's order/2 ben's order is cancelled
	// <nil>
	// after a week
	//   orders/ben's order/2 ben's order is cancelled
	//   orders/ann's order/2 ann's order: how was it?
}

func TestATimerThatSetsItselfAgainFiresAtEachTimeOnTheWay(t *testing.T) {
	sys := oncetest.New("log")
	start := sys.Now()
	once.Handle(sys.System, "ticks", func(_ context.Context, a *once.Attempt[int], m once.Message) error {
		a.State++
		a.Send("log", once.Text(fmt.Sprint(sys.Now().Sub(start))))
		if m.Timer != "" && !m.Accepted.Equal(sys.Now()) {
			t.Errorf("the timer was due %s, want %s", m.Accepted, sys.Now())
		}
		a.SetTimer("tick", time.Minute, once.Text(""))
		return nil
	})
	sys.Call(t.Context(), once.Message{Stream: "ticks", ID: "1", Group: "g"})
	for range 2 {
		if err := sys.Advance(t.Context(), 90*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, e := range sys.Sent("log") {
		got = append(got, e.Body)
	}
	if want := "0s 1m0s 2m0s 3m0s"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestATimerWhoseHandlerFailsIsDeliveredByTheNextAdvance(t *testing.T) {
	sys := oncetest.New("log")
	fails := true
	once.Handle(sys.System, "s", func(_ context.Context, a *once.Attempt[int], m once.Message) error {
		switch {
		case m.Timer == "":
			a.SetTimer("t", time.Minute, once.Text(""))
		case fails:
			return errors.New("not now")
		default:
			a.State++
		}
		return nil
	})
	sys.Call(t.Context(), once.Message{Stream: "s", ID: "1", Group: "g"})
	if err := sys.Advance(t.Context(), time.Hour); err == nil || !strings.Contains(err.Error(), "not now") {
		t.Errorf("got %v, want the error of the handler", err)
	}
	fails = false
	for range 2 {
		if err := sys.Advance(t.Context(), 0); err != nil {
			t.Error(err)
		}
	}
	if n, err := oncetest.State[int](t.Context(), sys, "s", "g"); n != 1 || err != nil {
		t.Errorf("the timer fired %d times, %v, want once", n, err)
	}
}

func TestTheClockCannotGoBack(t *testing.T) {
	if err := oncetest.New().Advance(t.Context(), -1); err == nil {
		t.Error("got no error")
	}
}

func TestAnAttemptThatUsesTimeWronglyFailsWithAClearError(t *testing.T) {
	for want, do := range map[string]func(a *once.Attempt[int]){
		`send to "log" after -1s: a delay of -1s: it must not be negative`: func(a *once.Attempt[int]) { a.SendAfter("log", -time.Second, once.Text("")) },
		`set timer "t": a delay of 8761h0m0s: at most 365 days`:            func(a *once.Attempt[int]) { a.SetTimer("t", 8761*time.Hour, once.Text("")) },
		`set timer "": the name of a timer must not be empty`:              func(a *once.Attempt[int]) { a.SetTimer("", time.Hour, once.Text("")) },
		`cancel timer "": the name of a timer must not be empty`:           func(a *once.Attempt[int]) { a.Cancel("") },
		`send to "other": no such destination`:                             func(a *once.Attempt[int]) { a.SendAfter("other", time.Hour, once.Text("")) },
	} {
		sys := oncetest.New("log")
		once.Handle(sys.System, "s", func(_ context.Context, a *once.Attempt[int], _ once.Message) error {
			do(a)
			return nil
		})
		out := sys.Call(t.Context(), once.Message{Stream: "s", ID: "1", Group: "g"})
		if out.Err == nil || !strings.Contains(out.Err.Error(), want) {
			t.Errorf("got %v, want %q", out.Err, want)
		}
	}
}

func TestAStatelessHandlerCanSetNoTimer(t *testing.T) {
	sys := oncetest.New("log")
	once.Handle(sys.System, "s", func(_ context.Context, a *once.Attempt[once.Stateless], _ once.Message) error {
		a.SetTimer("t", time.Hour, once.Text(""))
		return nil
	})
	sys.Declare("s", once.StreamConfig{Destinations: []string{"log"}})
	out := sys.Call(t.Context(), once.Message{Stream: "s", ID: "1"})
	if out.Err == nil || !strings.Contains(out.Err.Error(), "a stateless handler has no timers") {
		t.Errorf("got %v, want an error about a stateless handler", out.Err)
	}
}
