// Command sessions sends a million messages into a stream, lets eight consumers make a row of each in
// a table without a unique index, injects faults into consumers and the server, and counts the rows.
//
//	go run .                                        # SQLite, 100 faults
//	go run . -messages 20000 -faults 20             # seconds
//	go run . -postgres "$POSTGRES_URL"              # PostgreSQL; drops its tables rows and once_cursor
//	go run . -consumer "python3 consumer.py"        # another program as the consumers
//
// It exits with 1 if a row is missing or doubled.
package main

import (
	"context"
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
		os.Exit(1)
	}
}

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
