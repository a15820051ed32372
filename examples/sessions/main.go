// Command sessions sends a million messages into a stream, lets eight consumers make a row of each
// in a table without a unique index, injects faults into consumers and the server, and counts the
// rows.
//
//	go run .                                        # SQLite, 100 faults
//	go run . -messages 20000 -faults 20             # seconds
//	go run . -postgres "$POSTGRES_URL"              # drops its tables rows and once_cursor
//	go run . -consumer "python3 consumer.py"        # another program as the consumers
//
// It exits with 1 if a row is missing or doubled, and with 2 if the arguments are wrong.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/effectively-once/once/client"
)

func main() {
	if err := choose(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sessions:", err)
		if _, ok := errors.AsType[*usageError](err); ok {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

// A usageError says that the command line can't be run.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// choose runs one of the processes.
func choose(args []string) error {
	switch {
	case len(args) == 3 && args[0] == "serve":
		return serve(args[1], args[2])
	case len(args) == 7 && args[0] == "consume":
		return consume(args[1], args[2], args[3], args[4], client.Take(args[5]), args[6])
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return drive(ctx)
}

func drive(ctx context.Context) error {
	var o options
	flag.IntVar(&o.messages, "messages", 1_000_000, "messages to send")
	flag.IntVar(&o.consumers, "consumers", 8, "sessions, each with a consumer; one of them is retired")
	flag.IntVar(&o.faults, "faults", 100, "faults to inject")
	flag.StringVar(&o.source, "postgres", "", "URL of a PostgreSQL database for the rows; empty takes a file of SQLite")
	consumer := flag.String("consumer", "", "the program of the consumers, with its arguments; empty takes this one")
	flag.Parse()
	if err := o.check(flag.Args()); err != nil {
		return err
	}
	o.consumer = strings.Fields(*consumer)
	dir, err := os.MkdirTemp("", "sessions")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if o.self, err = os.Executable(); err != nil {
		return err
	}
	if len(o.consumer) == 0 {
		o.consumer = []string{o.self, "consume"}
	}
	if o.source == "" {
		o.source = filepath.Join(dir, "rows.db")
	}
	o.dir, o.progress = dir, os.Stderr
	result, err := play(ctx, o)
	if err != nil {
		return err
	}
	return result.print(os.Stdout)
}

// check returns an error about numbers with which the run would never end, and about arguments that
// are no flags.
func (o *options) check(args []string) error {
	switch {
	case len(args) > 0:
		return &usageError{fmt.Sprintf("unexpected argument %q: there are only flags, see -help", args[0])}
	case o.messages < 1:
		return &usageError{fmt.Sprintf("-messages %d: send at least 1", o.messages)}
	case o.faults < 0:
		return &usageError{fmt.Sprintf("-faults %d: 0 is the fewest", o.faults)}
	case o.consumers < 1:
		return &usageError{fmt.Sprintf("-consumers %d: nothing would process the messages; take at least 1", o.consumers)}
	case o.consumers < 2 && o.faults > 0:
		return &usageError{"-consumers 1: one session is retired among the faults, so take at least 2, or -faults 0"}
	}
	return nil
}
