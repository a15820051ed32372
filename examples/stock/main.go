// Command stock keeps the stock of a warehouse. README.md and docs/tutorial.md run it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/embedded"
)

const config = `
streams:
  stock: {destinations: [warehouse]}
destinations:
  warehouse: {file: out/warehouse.jsonl}
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, "out/stock", embedded.Options{
		Config: config,
		Listen: "127.0.0.1:8080",
		Ready:  func(address string) { fmt.Println("stock listens on", address) },
		Log:    slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "stock:", err)
		os.Exit(1)
	}
}

// run serves the stock in a data folder until ctx ends.
func run(ctx context.Context, data string, o embedded.Options) (err error) {
	sys, err := embedded.Open(data, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sys.Close()) }()
	once.Handle(sys, "stock", change)
	return sys.Run(ctx)
}
