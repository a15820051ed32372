package onlambda_test

import (
	"context"
	"log"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/onlambda"
)

// The main function of a process function with a handler of its own. It runs on AWS Lambda, where
// the deployment sets the environment that Open reads.
func ExampleOpen() {
	ctx := context.Background()
	sys, err := onlambda.Open(ctx, onlambda.Options{})
	if err != nil {
		log.Fatal(err)
	}
	once.Handle(sys, "orders", func(_ context.Context, a *once.Attempt[int], m once.Message) error {
		a.State++
		a.Send("shop", once.Text(m.ID))
		return nil
	})
	log.Fatal(sys.Run(ctx)) // returns only if it can't start: Lambda ends the process
}

// A program that handles one-time requests also replaces the function behind the API.
func ExampleOptions() {
	ctx := context.Background()
	sys, err := onlambda.Open(ctx, onlambda.Options{Function: onlambda.Ingest})
	if err != nil {
		log.Fatal(err)
	}
	once.Handle(sys, "orders", func(_ context.Context, a *once.Attempt[int], _ once.Message) error {
		a.State++
		return nil
	})
	log.Fatal(sys.Run(ctx))
}
