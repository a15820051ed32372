// Command once is what the benchmark sets beside its peers: the engine on DynamoDB with a handler
// that makes one state change.
//
//	once CASE MESSAGES WARM
//
// It warms up, says "ready", waits for a line, works, and says how much CPU that took. A case is an
// admission, key or sequence, and what arrives:
//
//	alone           each message by itself, in a group of its own
//	again           each by itself, in one of ten groups
//	new-groups      batches of ten, each message in a group of its own
//	ten-groups      batches of ten, of the same ten groups
//	one-group       batches of ten of one group
//	duplicate       of a message with a reply of 20 KB
//	duplicate-last  the same, and nothing has come for its group since
//
// To alone and one-group may be added -effects, for a handler that sends a message of some 30
// bytes, which is published after each batch; and before that to alone -issued, for tokens that are
// written ahead of their messages, as the HTTP API does.
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

	"github.com/effectively-once/once/internal/aws/awsconfig"
	"github.com/effectively-once/once/internal/dedup"
	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/function"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "once:", err)
		os.Exit(1)
	}
}

// A world takes triggers, and publishes their effects.
type world struct{ triggered []record.GroupKey }

func (w *world) Trigger(_ context.Context, groups []record.GroupKey, _ time.Duration) error {
	w.triggered = append(w.triggered, groups...)
	return nil
}
func (w *world) Return(context.Context, []record.Message) error     { return nil }
func (w *world) DeadLetter(context.Context, []record.Refused) error { return nil }
func (*world) Delay(context.Context, []record.Delayed) error        { return nil }
func (w *world) Send(_ context.Context, deliveries []record.Delivery) []error {
	return make([]error, len(deliveries))
}

// handle makes one state change; the message says how large the reply is to be, and whether there
// is an effect.
func handle(_ context.Context, a *record.Attempt, m record.Message) error {
	a.State = fmt.Appendf(nil, `{"cents":%s}`, m.Body)
	if m.Headers["effect"] != "" {
		a.Send(record.Effect{To: []string{"ledger"}, ContentType: "application/json", Body: fmt.Appendf(nil, `{"account":1,"cents":%s}`, m.Body)})
	}
	if size := m.Headers["reply"]; size != "" {
		n, err := strconv.Atoi(size)
		if err != nil {
			return err
		}
		a.Reply(record.Reply{Status: 201, Body: bytes.Repeat([]byte("x"), n)})
	}
	return nil
}

func newEngine(ctx context.Context, w *world) (*dedup.Engine, error) {
	cfg, err := awsconfig.Load(ctx)
	if err != nil {
		return nil, err
	}
	clients := function.NewClients(cfg)
	store, err := dynamostore.New(clients.DynamoDB, dynamostore.Tables{Groups: os.Getenv("BENCH_GROUPS"), Tokens: os.Getenv("BENCH_TOKENS")}, dynamostore.Options{})
	if err != nil {
		return nil, err
	}
	return dedup.New(dedup.Config{KeepDone: true, Store: store, Queues: w, Senders: map[string]record.Sender{"ledger": w}, Streams: []record.Stream{
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
	around := &world{}
	engine, err := newEngine(ctx, around)
	if err != nil {
		return err
	}
	admission, arrival, _ := strings.Cut(args[0], "-")
	arrival, effects := strings.CutSuffix(arrival, "-effects")
	arrival, issued := strings.CutSuffix(arrival, "-issued")
	w := &work{engine: engine, world: around, stream: admission, arrival: arrival, effects: effects, issued: issued, run: strconv.FormatInt(time.Now().UnixNano(), 36)}
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

// cpu returns the CPU time of the process so far, including system calls.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
