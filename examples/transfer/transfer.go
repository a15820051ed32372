package main

import (
	"context"
	"net/http"

	"github.com/effectively-once/once"
)

// An Account is the state of one group: one customer's account.
type Account struct{ Cents int64 }

// A Transfer takes money from the account of its group. If To is that account,
// it puts the money in.
type Transfer struct {
	From, To string
	Cents    int64
}

// A Receipt answers a transfer that was made. Every duplicate gets it again.
type Receipt struct {
	ID      string
	Balance int64
}

// A Refusal answers a transfer that was not made.
type Refusal struct{ Reason string }

// transfer moves money out of the account and tells the other bank and the
// customer. However often a transfer is delivered, the account changes once, and
// both messages keep their identities.
func transfer(_ context.Context, a *once.Attempt[Account], m once.Message) error {
	var t Transfer
	if err := m.Decode(&t); err != nil || t.Cents <= 0 {
		return once.Reject("not a transfer", err)
	}
	switch {
	case t.To == m.Group:
		a.State.Cents += t.Cents
	case t.From != m.Group:
		return once.Reject("not a transfer of this account", nil)
	case a.State.Cents < t.Cents:
		a.Reply(http.StatusConflict, once.JSON(Refusal{"not enough money"}))
		return nil // a decision, remembered like any other
	default:
		a.State.Cents -= t.Cents
		a.SendTo("bank", t.To, once.JSON(t))
		a.Send("mail", once.JSON(Receipt{m.ID, a.State.Cents}))
	}
	a.Reply(http.StatusCreated, once.JSON(Receipt{m.ID, a.State.Cents}))
	return nil
}
