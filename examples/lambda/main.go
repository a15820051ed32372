// Command lambda is a process function with its own handler: it counts the orders of each customer,
// once per order, and sends the count to the shop.
//
// Built as a bootstrap, it replaces the process function that comes with once; docs/deploy.md shows
// how to configure the deployment:
//
//	GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go build -C examples -tags lambda.norpc \
//		-o ../dist/orders/bootstrap ./lambda
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/onlambda"
)

// A Customer is the state of one group.
type Customer struct {
	Orders int `json:"orders"`
}

// order counts an order. If it is delivered several times, it is counted once, and the message to
// the shop keeps its identity.
func order(_ context.Context, a *once.Attempt[Customer], _ once.Message) error {
	a.State.Orders++
	a.Send("shop", once.JSON(a.State))
	a.Reply(http.StatusCreated, once.JSON(a.State))
	return nil
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "orders:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	sys, err := onlambda.Open(ctx, onlambda.Options{})
	if err != nil {
		return err
	}
	once.Handle(sys, "orders", order)
	return sys.Run(ctx)
}
