// Command faults injects the same faults into once and into common alternatives. Each consumer runs
// as processes on one DynamoDB Local, behind one queue with at-least-once delivery, with one
// handler: it counts the message in a state of the message, and sends the count to a receiver.
//
//	localstack/aws.sh run go -C bench run ./faults
//
//	consumers.go  the consumers, and how they are built
//	fault.go      the faults, and when they happen
//	trial.go      one consumer under one kind of fault
//	worker.go     a process, and the Lambda Runtime API that invokes it
//	handler.go    a handler in another language, which a process calls by HTTP
//	broker.go     the queue
//	sqs.go        the one action of SQS that the functions call
//	receiver.go   the receiver
//	tables.go     the tables
//	judge.go      the numbers of lost and doubled messages after all were acknowledged
//	report.go     the tables of the README
//
// # Rules
//
// All consumers are functions behind the Lambda Runtime API, with three processes for each function
// (eight if processes are stopped) and five seconds for an invocation. The queue's visibility
// timeout is six seconds: after that, a message that was not acknowledged is redelivered, alone,
// until it is. Powertools guard the handler by their documented decorator, with the message's id as
// the key and the Lambda context, so that they consider an execution in progress until its
// invocation's deadline. A failed handler is not retried within its invocation; the SDKs retry with
// their defaults.
//
// The handlers in Python and TypeScript are processes of their own, one for each process of the
// function that calls them. A kill or a stop hits the function or its handler, each every other
// time.
//
// Half of the messages meet a fault, at their first delivery and in a process that has done work
// before. The others measure the time of a handling, or its number of writes; the moment of the
// fault is spread evenly over that. A kill that is too late is not counted. All messages are
// judged.
//
// # Limits
//
// Only the handler's own state differs: for once it is the state of the group, because that is all
// that a handler of once can change without using attempts. The acceptance by receivers is computed
// from the record of arrivals: the first-in-first-out queue is a model that drops known
// deduplication ids, not SQS.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

const endpointVariable = "AWS_ENDPOINT_URL_DYNAMODB"

// options are the options of the command line.
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

// chosen parses a list; an empty one means all. An unknown name is an error, because the table
// would silently lack it.
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
	root, err := filepath.Abs("..")
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
		return nil // they are printed below
	}
	return report(os.Stdout, results)
}

// open creates the tables and a folder.
func open(ctx context.Context) (in place, leave func() error, err error) {
	in.endpoint = os.Getenv(endpointVariable)
	if in.endpoint == "" {
		return in, nil, fmt.Errorf("%s is not set: localstack/aws.sh run go -C bench run ./faults", endpointVariable)
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

// conductAll runs the trials, several concurrently, and prints the progress.
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

// progress prints the result of a trial.
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
