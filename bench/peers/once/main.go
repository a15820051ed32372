// Command once is what the benchmark sets beside its peers: the engine on DynamoDB with a handler that makes one state change.
//
//	once CASE MESSAGES WARM
//
// It warms up, says "ready", waits for a line, works, and says how much CPU that took. A case is an admission, key or sequence, and what arrives:
//
//	alone           each message by itself, in a group of its own
//	again           each by itself, in one of ten groups
//	new-groups      batches of ten, each message in a group of its own
//	ten-groups      batches of ten, of the same ten groups
//	one-group       batches of ten of one group
//	duplicate       of a message with a reply of 20 KB
//	duplicate-last  the same, and nothing has come for its group since
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/lambda"
	"github.com/effectively-once/once/internal/record"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "once:", err)
		os.Exit(1)
	}
}

// noQueues takes triggers and drops them: without effects there is nothing to publish.
type noQueues struct{}

func (noQueues) Trigger(context.Context, []record.GroupKey, time.Duration) error { return nil }
func (noQueues) Return(context.Context, []record.Message) error                  { return nil }
func (noQueues) DeadLetter(context.Context, []record.Refused) error              { return nil }

// handle makes one state change; the message says how large the reply is to be.
func handle(_ context.Context, a *record.Attempt, m record.Message) error {
	a.State = fmt.Appendf(nil, `{"cents":%s}`, m.Body)
	if size := m.Headers["reply"]; size != "" {
		n, err := strconv.Atoi(size)
		if err != nil {
			return err
		}
		a.Reply(record.Reply{Status: 201, Body: bytes.Repeat([]byte("x"), n)})
	}
	return nil
}

func newEngine(ctx context.Context) (*dedup.Engine, error) {
	clients, err := lambda.NewClients(ctx)
	if err != nil {
		return nil, err
	}
	store, err := dynamostore.New(clients.DynamoDB, dynamostore.Tables{Groups: os.Getenv("BENCH_GROUPS"), Tokens: os.Getenv("BENCH_TOKENS")}, dynamostore.Options{})
	if err != nil {
		return nil, err
	}
	return dedup.New(dedup.Config{Store: store, Queues: noQueues{}, Streams: []record.Stream{
		{Name: "key", Handler: handle}, {Name: "sequence", Admission: record.BySequence, Handler: handle},
	}})
}

func run(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("want a case, messages to count and messages to warm up with")
	}
	messages, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	warm, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	engine, err := newEngine(ctx)
	if err != nil {
		return err
	}
	admission, arrival, _ := strings.Cut(args[0], "-")
	w := &work{engine: engine, stream: admission, arrival: arrival, run: strconv.FormatInt(time.Now().UnixNano(), 36)}
	if err := w.prepare(ctx, warm); err != nil {
		return err
	}
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	start := cpu()
	if err := w.do(ctx, messages); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]float64{"cpu_seconds": (cpu() - start).Seconds()})
}

// cpu is what the process has used so far, system calls included.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
