// Command sessions injects the same faults into consumers that insert a row for each message, and
// counts the rows that are lost and doubled: sessions of once, and common alternatives.
//
//	localstack/postgres.sh run localstack/aws.sh run go -C bench run ./sessions
//	go -C bench run ./sessions speed 500000     # how fast 500,000 entries are, beside JetStream; see speed.go
//	go -C bench run ./sessions idle 10000       # what 10,000 open sessions cost while they are idle; see idle.go
//
//	peer.go       the interface of a peer
//	trial.go      one peer under one kind of fault
//	rows.go       the table that the rows go into
//	speed.go      how fast entries are read and committed, and messages enter a pool
//	readback.go   one session that reads a log, and its floors
//	idle.go       memory and writes of a server with idle sessions
//	once.go       sessions of once, with the cursor in the transaction of the row, or after it
//	jetstream.go  JetStream, a pull consumer with double acknowledgement
//	watermill.go  the SQL subscriber of Watermill on PostgreSQL
//	sqs.go        a queue with visibility timeouts: ElasticMQ
//
// # Rules
//
// Each peer has six consumer processes. A consumer receives up to ten messages, works for five
// milliseconds, inserts a row for each in one transaction, and acknowledges them. The table is in
// SQLite and has no unique index. A consumer that does not answer is replaced after two seconds:
// the lease, the acknowledgement wait, or the visibility timeout.
//
// Faults come at random moments: a consumer is killed with SIGKILL and restarted; a consumer is
// stopped with SIGSTOP for a second longer than the two, and then goes on; the server is killed
// with SIGKILL and restarted. After the last fault the rest is processed without faults, and the
// rows are counted when nothing has changed for a while.
//
// # Limits
//
// ElasticMQ keeps its queues in memory, so it is not killed. The subscriber of Watermill holds its
// messages by a transaction of PostgreSQL, so its other processes wait for one that is stopped.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/effectively-once/once/bench/table"
)

func main() {
	if err := choose(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sessions:", err)
		os.Exit(1)
	}
}

// choose runs a child process, or all trials.
func choose(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(args) > 1 {
		if child := children()[args[0]]; child != nil {
			return child(ctx, args[1:])
		}
	}
	faultsEach := flag.Int("faults", 100, "faults of each kind for each peer")
	only := flag.String("only", "", "comma-separated peers; default all: "+strings.Join(names(), ", "))
	flag.Parse()
	wanted := names()
	if *only != "" {
		wanted = strings.Split(*only, ",")
	}
	results, err := conduct(ctx, wanted, faults(), *faultsEach)
	if err != nil {
		return err
	}
	for _, r := range results {
		fmt.Fprintf(os.Stderr, "%+v\n", r)
	}
	return report(os.Stdout, results)
}

// children returns the programs of the child processes, by name.
func children() map[string]func(context.Context, []string) error {
	return map[string]func(context.Context, []string) error{
		"serve": serve, "nats": serveNATS, "speed": speed, "idle": idle, "hold": hold, "floor": floor, nameOnce: consumeOnce, nameAfter: consumeAfter, nameJetStream: consumeJetStream,
		nameWatermill: consumeWatermill, nameWatermillTx: consumeWatermillTx, nameSQS: consumeSQS,
	}
}

// conduct runs all trials. Those on one server run one after the other, because it is killed; the
// others wait most of the time, and run at once.
func conduct(ctx context.Context, wanted []string, kinds []fault, faultsEach int) (results []result, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var running sync.WaitGroup
	var mu, postgres sync.Mutex
	for _, name := range wanted {
		if !slices.Contains(names(), name) {
			return nil, fmt.Errorf("there is no %q: %v are", name, names())
		}
		running.Go(func() {
			if strings.HasPrefix(name, nameWatermill) {
				postgres.Lock()
				defer postgres.Unlock()
			}
			for _, f := range kinds {
				r, failed := try(ctx, self, name, f, faultsEach)
				mu.Lock()
				err = errors.Join(err, failed)
				results = append(results, r)
				mu.Unlock()
			}
		})
	}
	running.Wait()
	return results, err
}

// report prints a table for each order of rows and position: only peers of one order compare.
func report(w io.Writer, results []result) error {
	for _, within := range []bool{false, true} {
		t := table.Table{Head: []string{order(within) + ": rows lost / doubled per 100 faults"}}
		for _, f := range faults() {
			t.Head = append(t.Head, f.describe())
		}
		for _, name := range names() {
			row := []string{describe(name)}
			for _, f := range faults() {
				for _, r := range results {
					if r.Peer == name && r.Fault == f {
						row = append(row, r.cell())
					}
				}
			}
			if inTransaction(name) == within && len(row) == len(t.Head) {
				t.Rows = append(t.Rows, row)
			}
		}
		if len(t.Rows) == 0 {
			continue
		}
		if err := t.Write(w); err != nil {
			return err
		}
	}
	return nil
}
