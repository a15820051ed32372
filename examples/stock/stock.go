package main

import (
	"context"
	"net/http"

	"github.com/effectively-once/once"
)

// Stock is the state of one group. Here a group is one item of the warehouse.
type Stock struct{ OnHand int }

// Change is the body of a message: how many pieces come in, or go out.
type Change struct{ Add, Take int }

// change books one message. However often the message arrives, the stock
// changes once.
func change(_ context.Context, a *once.Attempt[Stock], m once.Message) error {
	var c Change
	if err := m.Decode(&c); err != nil {
		return once.Reject("not a change of stock", err)
	}
	if c.Take > a.State.OnHand+c.Add {
		a.Reply(http.StatusConflict, once.Text("not enough in stock"))
		return nil
	}
	a.State.OnHand += c.Add - c.Take
	a.Send("warehouse", once.JSON(c))
	a.Reply(http.StatusOK, once.JSON(a.State))
	return nil
}
