// Command process is the process function of once with the handler that all consumers have: it
// counts the message in the state of its group, and sends the count.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/onlambda"
)

// A counter is the state of one message's group.
type counter struct {
	Count int `json:"count"`
}

type sent struct {
	ID    string `json:"id"`
	Count int    `json:"count"`
}

func count(_ context.Context, a *once.Attempt[counter], m once.Message) error {
	a.State.Count++
	a.Send("receiver", once.JSON(sent{m.ID, a.State.Count}))
	return nil
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "process:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	sys, err := onlambda.Open(ctx, onlambda.Options{})
	if err != nil {
		return err
	}
	once.Handle(sys, "messages", count)
	return sys.Run(ctx)
}
