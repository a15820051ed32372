// Command counter is Watermill's example of a counter with exactly-once delivery, once on its SQL
// Pub/Sub and once on package watermill of this project. Clients ask a web server to count; the web
// server publishes a message for each request; a worker raises the counter in PostgreSQL, in the
// transaction of the message. All of them are killed meanwhile. In the end the counter is compared
// with the number of requests.
//
//	localstack/postgres.sh run go -C bench run ./counter
//
//	main.go     the trials and the table
//	trial.go    the processes, the requests and the kills
//	web.go      the web server
//	worker.go   the worker
//	systems.go  what differs between the two
//
// # Rules
//
// A client repeats a request until it is answered with 204. It names its requests by keys, which
// the web server of the SQL Pub/Sub ignores, as in the original: it has no use for them.
//
// The processes are the web server, the worker, PostgreSQL, and for this project the once server.
// In turn one of them is killed with SIGKILL and started again, while requests are under way.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/effectively-once/once/bench/table"
)

func main() {
	if err := choose(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "counter:", err)
		os.Exit(1)
	}
}

// choose runs a child process, or the trials.
func choose(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(args) > 1 {
		if child := children()[args[0]]; child != nil {
			return child(ctx, args[1:])
		}
	}
	requests := flag.Int("requests", 5000, "requests to each system")
	kills := flag.Int("kills", 40, "processes to kill in each system")
	only := flag.String("only", "", "comma-separated systems; default all: "+strings.Join(names(), ", "))
	flag.Parse()
	wanted := names()
	if *only != "" {
		wanted = strings.Split(*only, ",")
	}
	var results []result
	for _, name := range wanted {
		if !slices.Contains(names(), name) {
			return fmt.Errorf("there is no %q: %v are", name, names())
		}
		r, err := try(ctx, name, *requests, *kills)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		results = append(results, r)
	}
	return report(results)
}

// children returns the programs of the child processes, by name.
func children() map[string]func(context.Context, []string) error {
	return map[string]func(context.Context, []string) error{"serve": serve, "web": web, "work": work}
}

// A result has the counts of a trial.
type result struct {
	System            string
	Requests, Counted int
	Killed            map[string]int
	Took              time.Duration
}

// report prints the table. It returns an error if the counter of this project is wrong.
func report(results []result) error {
	t := table.Table{Head: []string{"system", "requests", "counted", "wrong by", "killed", "requests/s"}}
	wrong := error(nil)
	for _, r := range results {
		var killed []string
		for _, kind := range slices.Sorted(maps.Keys(r.Killed)) {
			killed = append(killed, fmt.Sprintf("%s %d", kind, r.Killed[kind]))
		}
		t.Add(describe(r.System), strconv.Itoa(r.Requests), strconv.Itoa(r.Counted), fmt.Sprintf("%+d", r.Counted-r.Requests),
			strings.Join(killed, ", "), fmt.Sprintf("%.0f", float64(r.Requests)/r.Took.Seconds()))
		if r.System == nameOnce && r.Counted != r.Requests {
			wrong = fmt.Errorf("%d requests were counted as %d", r.Requests, r.Counted)
		}
	}
	return errors.Join(t.Write(os.Stdout), wrong)
}
