package main

import (
	"net/http"
	"testing"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/oncetest"
)

func message(id, body string) once.Message {
	return once.Message{Stream: "stock", ID: id, Group: "lamp", Body: []byte(body)}
}

func TestADuplicateChangesTheStockOnce(t *testing.T) {
	sys := oncetest.New("warehouse")
	once.Handle(sys.System, "stock", change)

	sys.Call(t.Context(), message("delivery-1", `{"Add":10}`))
	for _, want := range []once.Kind{once.Processed, once.Duplicate, once.Duplicate} {
		o := sys.Call(t.Context(), message("order-1", `{"Take":3}`))
		if o.Kind != want || string(o.Reply.Body) != `{"OnHand":7}` {
			t.Errorf("got %+v, want %s", o, want)
		}
	}
	if sent := sys.Sent("warehouse"); len(sent) != 2 || sent[1].Identity != "stock/lamp/2" {
		t.Errorf("the warehouse got %+v", sent)
	}
}

func TestAnOrderWithoutStockIsAnsweredNo(t *testing.T) {
	sys := oncetest.New("warehouse")
	once.Handle(sys.System, "stock", change)

	o := sys.Call(t.Context(), message("order-1", `{"Take":3}`))
	if o.Reply.Status != http.StatusConflict || len(sys.Sent("warehouse")) > 0 {
		t.Errorf("got %+v", o)
	}
}
