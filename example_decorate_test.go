package once_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/embedded"
)

// A lazy handler may run twice at the same time, but all callers get one answer. One read and one
// write for each message.
func ExampleLazy() {
	render := func(_ context.Context, m once.Message) (once.Reply, error) {
		fmt.Printf("rendering %s\n", m.Body)
		return once.Reply{Status: http.StatusOK, Body: []byte("<p>hello</p>")}, nil
	}
	handler := once.Lazy(once.NewMemory(), render, once.GuardConfig{})

	page := once.Message{Stream: "pages", ID: "page-1", Body: []byte("hello")}
	for range 2 {
		o, err := handler(context.Background(), page)
		fmt.Println(o.Kind, string(o.Reply.Body), err)
	}
	// Output:
	// rendering hello
	// processed <p>hello</p> <nil>
	// duplicate <p>hello</p> <nil>
}

// An eager handler holds a lease while it runs: a second attempt gets the time to retry after.
func ExampleEager() {
	tokens := once.NewMemory()
	card := once.Message{Stream: "charges", ID: "order-1", Body: []byte("5 euros")}
	var handler once.Guarded
	charge := func(ctx context.Context, _ once.Message) (once.Reply, error) {
		_, err := handler(ctx, card) // the same message arrives again while this attempt runs
		if leased, ok := errors.AsType[*once.LeasedError](err); ok {
			fmt.Println("the second attempt is refused for up to a minute:", leased.RetryAfter.Round(time.Second))
		}
		return once.Reply{Status: http.StatusOK, Body: []byte("charged")}, nil
	}
	handler = once.Eager(tokens, charge, once.GuardConfig{})

	o, err := handler(context.Background(), card)
	fmt.Println(o.Kind, string(o.Reply.Body), err)
	// Output:
	// the second attempt is refused for up to a minute: 1m0s
	// processed charged <nil>
}

// A leased handler runs at most once at a time, and its reply is remembered.
func ExampleLeased() {
	label := func(_ context.Context, m once.Message) (once.Reply, error) {
		fmt.Printf("printing %s\n", m.Body)
		return once.Reply{Status: http.StatusOK, Body: []byte("printed")}, nil
	}
	handler := once.Leased(once.NewMemory(), label, once.GuardConfig{})

	parcel := once.Message{Stream: "labels", ID: "parcel-1", Body: []byte("to Bob")}
	for range 2 {
		o, err := handler(context.Background(), parcel)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s: %s\n", o.Kind, o.Reply.Body)
	}
	// Output:
	// printing to Bob
	// processed: printed
	// duplicate: printed
}

// The middleware answers a repeated request with the first one's reply.
func ExampleMiddleware() {
	orders := 0
	place := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		orders++
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, "order %d", orders)
	})
	handler := once.Middleware(once.NewMemory(), once.MiddlewareConfig{})(place)

	for range 2 {
		r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader("a book"))
		r.Header.Set("Idempotency-Key", `"8e03978e-40d5-43dd-bc93-6894a57f9324"`)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Printf("%d %s, replayed: %q\n", w.Code, w.Body, w.Header().Get("Idempotent-Replayed"))
	}
	// Output:
	// 201 order 1, replayed: ""
	// 201 order 1, replayed: "true"
}

// The same key with another request is refused, and the handler does not run.
func ExampleMiddleware_keyReuse() {
	pay := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "paid") })
	handler := once.Middleware(once.NewMemory(), once.MiddlewareConfig{})(pay)

	for _, body := range []string{"5 euros", "500 euros"} {
		r := httptest.NewRequest(http.MethodPost, "/payments", strings.NewReader(body))
		r.Header.Set("Idempotency-Key", "payment-1")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code, http.StatusText(w.Code))
	}
	// Output:
	// 200 OK
	// 422 Unprocessable Entity
}

// Tokens keeps the tokens of decorators and middleware in the store of a system, so that they
// survive a restart. Expired tokens are deleted until the system is closed.
func ExampleSystem_Tokens() {
	dir, err := os.MkdirTemp("", "once")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()

	for range 2 { // the second round is the program after a restart
		sys, err := embedded.Open(dir, embedded.Options{})
		if err != nil {
			fmt.Println(err)
			return
		}
		charge := once.Leased(sys.Tokens(), func(context.Context, once.Message) (once.Reply, error) {
			fmt.Println("charging the card")
			return once.Reply{Status: http.StatusOK}, nil
		}, once.GuardConfig{})
		o, err := charge(context.Background(), once.Message{Stream: "charges", ID: "order-1"})
		fmt.Println(o.Kind, err, sys.Close())
	}
	// Output:
	// charging the card
	// processed <nil> <nil>
	// duplicate <nil> <nil>
}

// Handler serves the HTTP API in a server of your own: put your authentication around it. Run
// processes the messages that it accepts.
func ExampleSystem_Handler() {
	dir, err := os.MkdirTemp("", "once")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	sys, err := embedded.Open(dir, embedded.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	once.Handle(sys, "greetings", func(_ context.Context, a *once.Attempt[once.Stateless], m once.Message) error {
		a.Reply(http.StatusOK, once.Text("hello, "+string(m.Body)))
		return nil
	})
	door, err := sys.Handler()
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- sys.Run(ctx) }()

	authenticated := func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		door.ServeHTTP(w, r)
	}
	for _, password := range []string{"", "secret"} {
		r := httptest.NewRequest(http.MethodPost, "/v1/streams/greetings/messages", strings.NewReader("Ann"))
		r.Header.Set("Idempotency-Key", "g-1")
		r.Header.Set("Prefer", "wait=10")
		r.SetBasicAuth("ann", password)
		w := httptest.NewRecorder()
		authenticated(w, r)
		fmt.Printf("%d %q\n", w.Code, w.Body)
	}
	stop()
	fmt.Println(<-ended, sys.Close())
	// Output:
	// 401 ""
	// 200 "hello, Ann"
	// <nil> <nil>
}
