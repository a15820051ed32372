package embedded_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/embedded"
)

// Open opens a system on a folder. Run serves until its context ends, and finishes work in flight.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "once")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	address := make(chan string, 1)
	sys, err := embedded.Open(dir, embedded.Options{
		Listen: "127.0.0.1:0", // a free port; Ready is told which
		Ready:  func(a string) { address <- a },
	})
	if err != nil {
		log.Fatal(err)
	}
	once.Handle(sys, "visits", func(_ context.Context, a *once.Attempt[int], _ once.Message) error {
		a.State++
		a.Reply(http.StatusOK, once.JSON(a.State))
		return nil
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- sys.Run(ctx) }()

	c, err := client.New("http://"+<-address, client.Options{MaxElapsed: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range []string{"v-1", "v-2", "v-1"} {
		r, err := c.Send(ctx, client.Message{Stream: "visits", Group: "page", Key: key, Wait: 10 * time.Second})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(key, string(r.Reply.Body), r.Replayed)
	}
	stop()
	fmt.Println(<-ended, sys.Close())
	// Output:
	// v-1 1 false
	// v-2 2 false
	// v-1 1 true
	// <nil> <nil>
}

// A stream of the configuration without a handler forwards its messages to its destinations.
func ExampleOptions() {
	dir, err := os.MkdirTemp("", "once")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	lines, stdout := io.Pipe()
	sys, err := embedded.Open(filepath.Join(dir, "data"), embedded.Options{
		Config: `
streams:
  orders: {destinations: [ledger]}
destinations:
  ledger: {file: "-"}
`,
		Stdout: stdout,
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	order := once.Message{Stream: "orders", ID: "o-1", Group: "customer-7", Body: []byte("one book")}
	for range 2 {
		fmt.Println(sys.Call(ctx, order).Kind)
	}
	ended := make(chan error)
	go func() { ended <- sys.Run(ctx) }() // publishes the committed effects
	line, err := bufio.NewReader(lines).ReadString('\n')
	fmt.Print(line)
	stop()
	fmt.Println(err, <-ended, sys.Close())
	// Output:
	// processed
	// duplicate
	// {"stream":"orders","group":"customer-7","number":1,"id":"o-1","body":"one book"}
	// <nil> <nil> <nil>
}

// The log of a group has what its handler appends. Readers follow it while the system runs, and
// continue at an offset that they have stored.
func Example_log() {
	dir, err := os.MkdirTemp("", "once")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	address := make(chan string, 1)
	sys, err := embedded.Open(dir, embedded.Options{Listen: "127.0.0.1:0", Ready: func(a string) { address <- a }})
	if err != nil {
		log.Fatal(err)
	}
	sys.Declare("accounts", once.StreamConfig{LogRetention: 24 * time.Hour})
	once.Handle(sys, "accounts", func(_ context.Context, a *once.Attempt[int], m once.Message) error {
		var amount int
		if err := m.Decode(&amount); err != nil {
			return once.Reject("no amount", err)
		}
		a.State += amount
		a.Append(once.JSON(map[string]int{"balance": a.State}))
		return nil
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- sys.Run(ctx) }()

	c, err := client.New("http://"+<-address, client.Options{MaxElapsed: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	for _, amount := range []string{"5", "7", "5"} {
		key := "deposit-" + amount // the last is a repetition
		if _, err := c.Send(ctx, client.Message{Stream: "accounts", Group: "ann", Key: key, ContentType: "application/json", Body: []byte(amount)}); err != nil {
			log.Fatal(err)
		}
	}
	tail := c.Tail("accounts", "ann", client.TailOptions{})
	for range 2 {
		e, err := tail.Next(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Number, e.ID, string(e.Body))
	}
	stop()
	fmt.Println(<-ended, sys.Close())
	// Output:
	// 1 deposit-5 {"balance":5}
	// 2 deposit-7 {"balance":12}
	// <nil> <nil>
}
