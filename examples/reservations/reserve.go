package main

import (
	"context"
	"net/http"
	"time"

	"github.com/effectively-once/once"
)

// holdTime is how long pieces are reserved for an order that is not paid.
const holdTime = 15 * time.Minute

// An Item is the state of one group: one item of the warehouse.
type Item struct {
	OnHand   int
	Reserved map[string]int // pieces, by order
}

// A Request is the body of a message: pieces come in, or are reserved for an order,
// or the order is paid.
type Request struct {
	Add, Reserve int
	Order        string
	Paid         bool
}

// A Shipment is what the warehouse gets.
type Shipment struct {
	Order  string
	Pieces int
}

// A Release is what the shop gets when the pieces of an order were not paid in time.
type Release Shipment

// A Refusal answers a request that can't be met.
type Refusal struct{ Reason string }

// reserve processes one message. A reservation sets a timer under the name of its order, which
// releases the pieces; a payment cancels it. If both are there at the same time, the one that is
// committed first counts.
func reserve(_ context.Context, a *once.Attempt[Item], m once.Message) error {
	if a.State.Reserved == nil {
		a.State.Reserved = map[string]int{}
	}
	if m.Timer != "" {
		release(a, m.Timer)
		return nil
	}
	var r Request
	if err := m.Decode(&r); err != nil {
		return once.Reject("not a request", err)
	}
	pieces, reserved := a.State.Reserved[r.Order]
	switch {
	case r.Add > 0:
		a.State.OnHand += r.Add
	case r.Order == "" || r.Reserve <= 0 && !r.Paid:
		return once.Reject("not a request", nil)
	case r.Paid && !reserved:
		a.Reply(http.StatusConflict, once.JSON(Refusal{"not reserved"}))
		return nil
	case r.Paid:
		delete(a.State.Reserved, r.Order)
		a.Cancel(r.Order)
		a.Send("warehouse", once.JSON(Shipment{r.Order, pieces}))
	case reserved || r.Reserve > a.State.OnHand:
		a.Reply(http.StatusConflict, once.JSON(Refusal{"reserved before, or not enough in stock"}))
		return nil
	default:
		a.State.OnHand -= r.Reserve
		a.State.Reserved[r.Order] = r.Reserve
		a.SetTimer(r.Order, holdTime, once.Body{})
	}
	a.Reply(http.StatusOK, once.JSON(a.State))
	return nil
}

// release puts the pieces of an order back.
func release(a *once.Attempt[Item], order string) {
	pieces := a.State.Reserved[order]
	delete(a.State.Reserved, order)
	a.State.OnHand += pieces
	a.Send("shop", once.JSON(Release{order, pieces}))
}
