package main

import (
	"testing"
	"time"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/oncetest"
)

func newStock(t *testing.T) *oncetest.System {
	t.Helper()
	sys := oncetest.New("warehouse", "shop")
	once.Handle(sys.System, "reservations", reserve)
	answered(t, sys, "delivery-1", `{"Add":10}`, `{"OnHand":10,"Reserved":{}}`)
	answered(t, sys, "order-1", `{"Reserve":3,"Order":"order-1"}`, `{"OnHand":7,"Reserved":{"order-1":3}}`)
	return sys
}

func answered(t *testing.T, sys *oncetest.System, id, body, want string) {
	t.Helper()
	o := sys.Call(t.Context(), once.Message{Stream: "reservations", Group: "lamp", ID: id, Body: []byte(body)})
	if string(o.Reply.Body) != want {
		t.Errorf("%s is answered %s (%v), want %s", body, o.Reply.Body, o, want)
	}
}

func advance(t *testing.T, sys *oncetest.System, d time.Duration) {
	t.Helper()
	if err := sys.Advance(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

func TestPiecesThatAreNotPaidAreReleasedAfter15Minutes(t *testing.T) {
	sys := newStock(t)
	advance(t, sys, 15*time.Minute)
	answered(t, sys, "payment-1", `{"Order":"order-1","Paid":true}`, `{"Reason":"not reserved"}`)
	answered(t, sys, "delivery-2", `{"Add":1}`, `{"OnHand":11,"Reserved":{}}`)
	if sent := sys.Sent("shop"); len(sent) != 1 || sent[0].Body != `{"Order":"order-1","Pieces":3}` {
		t.Errorf("the shop got %+v, want the release of order-1", sent)
	}
}

func TestPiecesThatArePaidAreNotReleased(t *testing.T) {
	sys := newStock(t)
	advance(t, sys, 15*time.Minute-time.Second)
	answered(t, sys, "payment-1", `{"Order":"order-1","Paid":true}`, `{"OnHand":7,"Reserved":{}}`)
	advance(t, sys, time.Hour)
	answered(t, sys, "delivery-2", `{"Add":1}`, `{"OnHand":8,"Reserved":{}}`)
	if sent := sys.Sent("shop"); len(sent) != 0 {
		t.Errorf("the shop got %+v, want nothing", sent)
	}
	if sent := sys.Sent("warehouse"); len(sent) != 1 {
		t.Errorf("the warehouse got %+v, want one shipment", sent)
	}
}
