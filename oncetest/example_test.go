package oncetest_test

import (
	"context"
	"fmt"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/oncetest"
)

// Cart is the state of one customer.
type Cart struct{ Items int }

func add(_ context.Context, a *once.Attempt[Cart], m once.Message) error {
	a.State.Items++
	a.Send("mail", once.Text(fmt.Sprintf("%s: %d in the cart", m.Group, a.State.Items)))
	return nil
}

// A test of a handler: call it with a message twice, and look at what became real.
func Example() {
	sys := oncetest.New("mail")
	once.Handle(sys.System, "carts", add)

	book := once.Message{Stream: "carts", ID: "click-1", Group: "ann"}
	for range 2 {
		fmt.Println(sys.Call(context.Background(), book).Kind)
	}
	for _, e := range sys.Sent("mail") {
		fmt.Println(e.Identity, "-", e.Body)
	}
	// Output:
	// processed
	// duplicate
	// carts/ann/1 - ann: 1 in the cart
}

// State returns the state of a group.
func ExampleState() {
	sys := oncetest.New("mail")
	once.Handle(sys.System, "carts", add)
	for _, id := range []string{"click-1", "click-2", "click-1"} {
		sys.Call(context.Background(), once.Message{Stream: "carts", ID: id, Group: "ann"})
	}

	cart, err := oncetest.State[Cart](context.Background(), sys, "carts", "ann")
	fmt.Println(cart.Items, err)
	// Output: 2 <nil>
}

// Restart runs another version of the handlers on the state of the first: here one that has added a
// field.
func ExampleSystem_Restart() {
	sys := oncetest.New("mail")
	once.Handle(sys.System, "carts", add)
	sys.Call(context.Background(), once.Message{Stream: "carts", ID: "click-1", Group: "ann"})

	type CartWithVoucher struct {
		Items   int
		Voucher string
	}
	next := sys.Restart()
	once.Handle(next.System, "carts", func(_ context.Context, a *once.Attempt[CartWithVoucher], _ once.Message) error {
		a.State.Voucher = "SPRING"
		return nil
	})
	next.Call(context.Background(), once.Message{Stream: "carts", ID: "click-2", Group: "ann"})
	cart, err := oncetest.State[CartWithVoucher](context.Background(), next, "carts", "ann")
	fmt.Printf("%+v %v\n", cart, err)
	// Output: {Items:1 Voucher:SPRING} <nil>
}
