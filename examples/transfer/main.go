// Command transfer moves money between accounts, effectively once: the same transfer is sent three
// times, and made once.
//
//	go -C examples run ./transfer                  # in a temporary folder
//	go -C examples run ./transfer -data accounts   # in a folder that is kept: a second run does nothing
//	go -C examples run ./transfer -data accounts -listen 127.0.0.1:8080   # only serves the accounts
//
// Folder typescript has the same handler in TypeScript.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/effectively-once/once/embedded"
)

func main() {
	data := flag.String("data", "", "data folder; empty takes a temporary one and removes it")
	listen := flag.String("listen", "", "address at which the accounts in the data folder are served until an interrupt")
	flag.Parse()
	err := errors.New("-listen needs -data")
	switch {
	case *listen == "":
		err = run(context.Background(), os.Stdout, *data)
	case *data != "":
		err = serve(*data, *listen)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "transfer:", err)
		os.Exit(1)
	}
}

// serve serves the accounts in a data folder until an interrupt.
func serve(data, listen string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	sys, err := open(data, embedded.Options{Listen: listen})
	if err != nil {
		return err
	}
	return errors.Join(sys.Run(ctx), sys.Close())
}

// run serves the accounts in a data folder, lets a customer send to it, and prints the messages to
// the bank and the customer.
func run(ctx context.Context, out io.Writer, data string) (err error) {
	if data == "" {
		if data, err = os.MkdirTemp("", "transfer"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
	}
	address := make(chan string, 1)
	sys, err := open(data, embedded.Options{Listen: "127.0.0.1:0", Ready: func(a string) { address <- a }})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- sys.Run(ctx) }()
	select {
	case a := <-address:
		err = customer(ctx, out, "http://"+a)
	case err = <-ended:
		ended <- nil
	}
	stop()
	err = errors.Join(err, <-ended, sys.Close())
	return errors.Join(err, show(out, data, "bank"), show(out, data, "mail"))
}

// show prints the content of a destination.
func show(out io.Writer, data, destination string) error {
	lines, err := os.ReadFile(filepath.Join(data, destination+".jsonl")) //nolint:gosec // the file of a destination
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s got %s", destination, lines)
	return err
}
