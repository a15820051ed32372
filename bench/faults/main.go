// Command faults gives the same faults to everybody: once, and what people use or write in its place. Each runs as processes on one DynamoDB Local, behind one queue that
// delivers at least once, with one handler: it counts the message in a state of the message's own, and sends the count to a receiver.
//
//	localstack/aws.sh run go run ./bench/faults
//
//	consumers.go  who takes part, and how it is built
//	fault.go      what happens to them, and when
//	trial.go      one consumer under one kind of fault
//	worker.go     a process, and the Lambda Runtime API that feeds it
//	broker.go     the queue
//	sqs.go        the one action of SQS that the functions ask for
//	receiver.go   the receiver
//	tables.go     the tables
//	judge.go      what was lost and doubled, once everything was acknowledged
//	report.go     the tables of the README
//
// # Rules
//
// All consumers are functions behind the Lambda Runtime API, three processes a function (eight where processes are stopped), with five seconds for an invocation and a queue whose
// visibility timeout is six: a message that was not acknowledged comes again after those, alone, until it is. Powertools guard the handler by their documented decorator, with
// the message's id as the key and the Lambda context, so that an execution is taken to be in progress until its invocation's deadline. A handler that fails is not tried again
// within its invocation; the SDKs try their calls again, as they come.
//
// Half of the messages meet a fault, at their first delivery and to a process that has done work before; the others are the measure of how long a handling takes, or how many
// writes it makes, and the moment of the fault is spread evenly over that. A kill that comes too late is not counted. All messages are judged.
//
// # Limits
//
// The handler's own state is what differs: ours is the state of the group, which is all that a handler of once can change without being told about attempts. What receivers take
// for new is worked out from the record of what arrived: the first-in-first-out queue is one that drops what it has a deduplication id of, not SQS.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

const endpointVariable = "AWS_ENDPOINT_URL_DYNAMODB"

// options are what the command is asked for.
type options struct {
	faults    int
	parallel  int
	consumers []string
	kinds     []fault
	json      bool
}

func main() {
	var o options
	flag.IntVar(&o.faults, "faults", 100, "faults of each kind for each consumer")
	only := flag.String("only", "", "comma-separated consumers; default all: "+strings.Join(names(), ", "))
	kinds := flag.String("kinds", "", "comma-separated kinds of faults; default all: kill, send, stop, answer")
	flag.IntVar(&o.parallel, "parallel", 3, "trials at a time: one consumer under one kind of fault each")
	flag.BoolVar(&o.json, "json", false, "print all counts, absolute, as lines of JSON in place of tables")
	flag.Parse()
	var err, err2 error
	o.consumers, err = chosen(*only, names())
	o.kinds, err2 = chosen(*kinds, faults())
	if err = errors.Join(err, err2); err == nil {
		err = run(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

// chosen reads a list; without one it is everything. What is not among everything is an error: a table without it would not tell.
func chosen[T ~string](list string, all []T) ([]T, error) {
	if list == "" {
		return all, nil
	}
	var out []T
	for name := range strings.SplitSeq(list, ",") {
		if !slices.Contains(all, T(name)) {
			return nil, fmt.Errorf("there is no %q: %v are", name, all)
		}
		out = append(out, T(name))
	}
	return out, nil
}

func run(o options) (err error) {
	if min(o.faults, o.parallel) < 1 {
		return errors.New("nothing to do: -faults and -parallel are at least 1")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	in, leave, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave()) }()
	consumers, err := build(ctx, root, in.dir, o.consumers)
	if err != nil {
		return err
	}
	results, err := conductAll(ctx, consumers, o, in)
	if err != nil {
		return err
	}
	if o.json {
		return nil // they are printed
	}
	return report(os.Stdout, results)
}

// open makes the tables and a folder.
func open(ctx context.Context) (in place, leave func() error, err error) {
	in.endpoint = os.Getenv(endpointVariable)
	if in.endpoint == "" {
		return in, nil, fmt.Errorf("%s is not set: localstack/aws.sh run go run ./bench/faults", endpointVariable)
	}
	if in.dir, err = os.MkdirTemp("", "once-faults-"); err != nil {
		return in, nil, err
	}
	names, drop, err := makeTables(ctx)
	if err != nil {
		return in, nil, errors.Join(err, os.RemoveAll(in.dir))
	}
	in.tables = names
	return in, func() error { return errors.Join(drop(), os.RemoveAll(in.dir)) }, nil
}

// conductAll conducts the trials, some at a time, and tells how it goes.
func conductAll(ctx context.Context, consumers []*consumer, o options, in place) ([]result, error) {
	results := make([]result, len(o.kinds)*len(consumers))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(o.parallel)
	for i := range results {
		t := newTrial(consumers[i%len(consumers)], o.kinds[i/len(consumers)], o.faults, in)
		group.Go(func() (err error) {
			if results[i], err = conduct(ctx, t); err != nil {
				return err
			}
			return o.progress(results[i])
		})
	}
	return results, group.Wait()
}

// progress tells of a trial that has ended.
func (o options) progress(r result) error {
	fmt.Fprintf(os.Stderr, "%s, %s: %d faults, %d messages, %.0f s: state %d lost, %d doubled; sends %d lost, %d doubled, %d about no message\n",
		r.Consumer, r.Fault, r.Faults, r.Messages, r.Seconds, r.StateLost, r.StateDoubled, r.SendsLost, r.SendsDoubled, r.SendsUnknown)
	if !o.json {
		return nil
	}
	line, err := json.Marshal(r)
	if err == nil {
		_, err = fmt.Printf("%s\n", line)
	}
	return err
}
