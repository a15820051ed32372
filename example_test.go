package once_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/oncetest"
)

// A handler changes the state of its message's group and adds effects. However often a message is delivered, that becomes real once.
func ExampleHandle() {
	type Account struct{ Cents int64 }
	type Deposit struct{ Cents int64 }

	sys := oncetest.New("mail")
	once.Handle(sys.System, "deposits", func(_ context.Context, a *once.Attempt[Account], m once.Message) error {
		var d Deposit
		if err := m.Decode(&d); err != nil {
			return once.Reject("not a deposit", err)
		}
		a.State.Cents += d.Cents
		a.Send("mail", once.Text(fmt.Sprintf("%s now has %d cents", m.Group, a.State.Cents)))
		return nil
	})

	deposit := once.Message{Stream: "deposits", ID: "d-1", Group: "alice", Body: []byte(`{"Cents": 100}`)}
	for range 3 {
		fmt.Println(sys.Call(context.Background(), deposit).Kind)
	}
	fmt.Println(sys.Sent("mail")[0].Body)
	// Output:
	// processed
	// duplicate
	// duplicate
	// alice now has 100 cents
}

// A stream without a handler forwards its messages.
func ExampleSystem_Declare() {
	sys := oncetest.New("archive")
	sys.Declare("readings", once.StreamConfig{Admission: once.BySequence, Destinations: []string{"archive"}})

	for _, n := range []uint64{2, 1, 3, 1} { // out of order, and one of them twice
		m := once.Message{Stream: "readings", Source: "meter-7", Sequence: n, Body: fmt.Append(nil, "reading ", n)}
		fmt.Println(n, sys.Call(context.Background(), m).Kind)
	}
	for _, e := range sys.Sent("archive") {
		fmt.Println(e.Body)
	}
	// Output:
	// 2 held
	// 1 processed
	// 3 processed
	// 1 duplicate
	// reading 1
	// reading 2
	// reading 3
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
