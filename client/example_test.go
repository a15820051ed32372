package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/embedded"
)

// exampleServer starts a server on this machine with two streams: orders, whose handler counts the
// orders of its group, and chat, which is numbered.
func exampleServer() (url string, stop func()) {
	dir, err := os.MkdirTemp("", "once")
	if err != nil {
		log.Fatal(err)
	}
	sys, err := embedded.Open(dir, embedded.Options{})
	if err != nil {
		log.Fatal(err)
	}
	sys.Declare("chat", once.StreamConfig{Admission: once.BySequence})
	once.Handle(sys, "orders", func(_ context.Context, a *once.Attempt[int], _ once.Message) error {
		a.State++
		a.Reply(http.StatusCreated, once.Text(fmt.Sprint("order number ", a.State)))
		return nil
	})
	handler, err := sys.Handler()
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(handler)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- sys.Run(ctx) }()
	return server.URL, func() {
		server.Close()
		cancel()
		if err := errors.Join(<-ended, sys.Close(), os.RemoveAll(dir)); err != nil {
			log.Fatal(err)
		}
	}
}

// Send repeats a message until it is acknowledged. Sent again under its key, it counts once.
func ExampleClient_Send() {
	url, stop := exampleServer()
	defer stop()
	c, err := client.New(url, client.Options{MaxElapsed: time.Minute})
	if err != nil {
		log.Fatal(err)
	}

	order := client.Message{
		Stream: "orders", Group: "customer-7", Key: "order-1", Body: []byte(`{"item": 7}`),
		Wait: 10 * time.Second, // for the handler's reply; without it, the receipt comes immediately
	}
	for range 2 {
		r, err := c.Send(context.Background(), order)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Status, r.Reply.Status, string(r.Reply.Body), r.Replayed)
	}
	// Output:
	// done 201 order number 1 false
	// done 201 order number 1 true
}

// A refusal is a Problem. Compare its type with errors.Is.
func ExampleProblem() {
	url, stop := exampleServer()
	defer stop()
	c, err := client.New(url, client.Options{MaxElapsed: time.Minute})
	if err != nil {
		log.Fatal(err)
	}

	for _, body := range []string{"one book", "two books"} {
		_, err = c.Send(context.Background(), client.Message{Stream: "orders", Key: "order-1", Body: []byte(body)})
		fmt.Println(body, errors.Is(err, client.KeyReuse))
	}
	_, err = c.Send(context.Background(), client.Message{Stream: "oders", Key: "order-2"})
	fmt.Println(errors.Is(err, client.UnknownStream))
	// Output:
	// one book false
	// two books true
	// true
}

// Status looks a message up by its key.
func ExampleClient_Status() {
	url, stop := exampleServer()
	defer stop()
	c, err := client.New(url, client.Options{MaxElapsed: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	order := client.Message{Stream: "orders", Key: "order-1", Wait: 10 * time.Second}
	if _, err := c.Send(context.Background(), order); err != nil {
		log.Fatal(err)
	}

	s, err := c.Status(context.Background(), "orders", "order-1")
	fmt.Println(s.Status, s.Reply.Body, err)
	_, err = c.Status(context.Background(), "orders", "order-2")
	fmt.Println(errors.Is(err, client.UnknownMessage))
	// Output:
	// done order number 1 <nil>
	// true
}

// A one-time request is stored first, then run once, then forgotten. Each step can be repeated.
func ExampleClient_Run() {
	url, stop := exampleServer()
	defer stop()
	c, err := client.New(url, client.Options{MaxElapsed: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()

	for range 2 {
		fresh, err := c.Put(ctx, client.Request{Stream: "orders", ID: "order-1", Body: []byte(`{"item": 7}`)})
		fmt.Println("stored, new:", fresh, err)
	}
	for range 2 {
		r, err := c.Run(ctx, "orders", "order-1")
		fmt.Println(r.Status, string(r.Body), "replayed:", r.Replayed, err)
	}
	fmt.Println(c.Delete(ctx, "orders", "order-1"))
	_, err = c.Run(ctx, "orders", "order-1")
	fmt.Println(errors.Is(err, client.Deleted))
	// Output:
	// stored, new: true <nil>
	// stored, new: false <nil>
	// 201 order number 1 replayed: false <nil>
	// 201 order number 1 replayed: true <nil>
	// <nil>
	// true
}

// SendBatch sends many messages in one request. Each has a result of its own.
func ExampleClient_SendBatch() {
	url, stop := exampleServer()
	defer stop()
	c, err := client.New(url, client.Options{MaxElapsed: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	results := c.SendBatch(context.Background(), []client.Message{
		{Stream: "orders", Key: "order-1", Group: "customer-7", ContentType: "application/json", Body: []byte(`{"item":7}`)},
		{Stream: "orders", Key: "order-2", Group: "customer-7", ContentType: "application/json", Body: []byte(`{"item":8}`)},
		{Stream: "orders", Key: "order-1", Group: "customer-7", ContentType: "application/json", Body: []byte(`{"item":9}`)},
	})
	for _, r := range results {
		if r.Err != nil {
			fmt.Println("key reuse:", errors.Is(r.Err, client.KeyReuse))
			continue
		}
		fmt.Println(r.Receipt.Status, r.Receipt.ID)
	}
	// Output:
	// accepted order-1
	// accepted order-2
	// key reuse: true
}

// sayFrom sends a message whether or not there is a connection now.
func sayFrom(ctx context.Context, c *client.Client, folder, text string) (uint64, error) {
	ann, err := c.Sender(client.SenderOptions{Stream: "chat", Group: "lobby", Source: "ann-phone", Folder: folder})
	if err != nil {
		return 0, err
	}
	number, err := ann.Send(ctx, client.Message{Body: []byte(text)}) // durable in the folder
	return number, errors.Join(err, ann.Close(ctx))                  // waits until all are acknowledged, or ctx ends
}

// A sender keeps messages until the server has acknowledged them. With a folder, it may end before.
func ExampleClient_Sender() {
	url, stop := exampleServer()
	defer stop()
	folder, err := os.MkdirTemp("", "ann")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	c, err := client.New(url, client.Options{})
	if err != nil {
		log.Fatal(err)
	}

	ctx, stop := context.WithCancel(context.Background())
	offline, err := client.New("http://127.0.0.1:1", client.Options{ // nothing listens there
		OnRetry: func(error, time.Duration) { stop() },
	})
	if err != nil {
		log.Fatal(err)
	}
	number, err := sayFrom(ctx, offline, folder, "hello")
	fmt.Println("number", number, err)
	number, err = sayFrom(context.Background(), c, folder, "anybody there?")
	fmt.Println("number", number, err)
	// Output:
	// number 1 flush sender: 1 messages are not acknowledged: context canceled
	// number 2 <nil>
}
