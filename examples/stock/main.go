// Command stock keeps the stock of a warehouse. README.md and docs/tutorial.md run it.
package main

import (
	"context"
	"errors"
	"flag"
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
	data := flag.String("data", "out/stock", "data folder")
	listen := flag.String("listen", "127.0.0.1:8080", "address of the HTTP API")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, *data, embedded.Options{
		Config: config,
		Listen: *listen,
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
