package once_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/oncetest"
)

// A handler changes the state of its message's group and adds effects. However often a message is
// delivered, the state changes once and each effect is sent under one identity.
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

// Send adds a message to a destination. It is sent after the commit, and has the same identity if
// it has to be sent again.
func ExampleAttempt_Send() {
	sys := oncetest.New("shop")
	once.Handle(sys.System, "orders", func(_ context.Context, a *once.Attempt[once.Stateless], m once.Message) error {
		a.Send("shop", once.JSON(map[string]string{"ship": m.ID}).WithHeader("X-Priority", "high"))
		return nil
	})

	order := once.Message{Stream: "orders", ID: "o-1", Group: "customer-7"}
	sys.Process(context.Background(), order, order)
	for _, e := range sys.Sent("shop") {
		fmt.Println(e.Identity, e.Group, e.Body, e.Headers)
	}
	// Output:
	// orders/customer-7/1 customer-7 {"ship":"o-1"} map[X-Priority:high]
}

// SendTo chooses the group at the destination: the receiving account, not the sending one.
func ExampleAttempt_SendTo() {
	type Transfer struct{ From, To string }

	sys := oncetest.New("bank")
	once.Handle(sys.System, "transfers", func(_ context.Context, a *once.Attempt[once.Stateless], m once.Message) error {
		var t Transfer
		if err := m.Decode(&t); err != nil {
			return once.Reject("not a transfer", err)
		}
		a.SendTo("bank", t.To, once.JSON(t))
		return nil
	})

	sys.Call(context.Background(), once.Message{
		Stream: "transfers", ID: "t-1", Group: "alice", Body: []byte(`{"From":"alice","To":"bob"}`),
	})
	e := sys.Sent("bank")[0]
	fmt.Println(e.Identity, "to group", e.Group)
	// Output:
	// transfers/alice/1 to group bob
}

// Reply answers the waiting caller. A refusal can be a reply, too: it is remembered like any other.
func ExampleAttempt_Reply() {
	type Seats struct{ Left int }

	sys := oncetest.New()
	once.Handle(sys.System, "bookings", func(_ context.Context, a *once.Attempt[Seats], m once.Message) error {
		if m.ID == "b-1" {
			a.State.Left = 1 // the first booking opens the show
		}
		if a.State.Left == 0 {
			a.Reply(http.StatusConflict, once.Text("sold out"))
			return nil
		}
		a.State.Left--
		a.Reply(http.StatusCreated, once.Text("seat for "+m.ID))
		return nil
	})

	for _, id := range []string{"b-1", "b-2", "b-1"} {
		o := sys.Call(context.Background(), once.Message{Stream: "bookings", ID: id, Group: "tonight"})
		fmt.Println(id, o.Kind, o.Reply.Status, string(o.Reply.Body))
	}
	// Output:
	// b-1 processed 201 seat for b-1
	// b-2 processed 409 sold out
	// b-1 duplicate 201 seat for b-1
}

// Blob writes an object that appears with the commit, whole, or not at all.
func ExampleAttempt_Blob() {
	sys := oncetest.New()
	once.Handle(sys.System, "invoices", func(_ context.Context, a *once.Attempt[once.Stateless], m once.Message) error {
		a.Blob("invoices/"+m.ID+".txt", []byte("5 euros"))
		if m.ID == "i-2" {
			return errors.New("printer on fire") // nothing of this attempt becomes visible
		}
		return nil
	})

	for _, id := range []string{"i-1", "i-2"} {
		o := sys.Call(context.Background(), once.Message{Stream: "invoices", ID: id})
		fmt.Printf("%s %s: %q\n", id, o.Kind, sys.Blob("invoices/"+id+".txt"))
	}
	// Output:
	// i-1 processed: "5 euros"
	// i-2 retry: ""
}

// Reject refuses a message for good: it becomes a dead letter. Any other error means "retry".
func ExampleReject() {
	sys := oncetest.New()
	once.Handle(sys.System, "deposits", func(_ context.Context, _ *once.Attempt[once.Stateless], m once.Message) error {
		var d struct{ Cents int64 }
		if err := m.Decode(&d); err != nil {
			return once.Reject("not a deposit", err)
		}
		return errors.New("the database is restarting")
	})

	for _, body := range []string{"five euros", `{"Cents": 500}`} {
		o := sys.Call(context.Background(), once.Message{Stream: "deposits", ID: body, Body: []byte(body)})
		fmt.Println(o.Kind, o.Settled(), o.Reason, o.Detail)
	}
	// Output:
	// rejected true rejected not a deposit
	// retry false
}

// Process takes a batch from a queue. Acknowledge the deliveries whose outcome is settled.
func ExampleSystem_Process() {
	sys := oncetest.New()
	once.Handle(sys.System, "hits", func(_ context.Context, a *once.Attempt[int], _ once.Message) error {
		a.State++
		a.Reply(http.StatusOK, once.JSON(a.State))
		return nil
	})

	hit := func(id string) once.Message { return once.Message{Stream: "hits", ID: id, Group: "page"} }
	for _, o := range sys.Process(context.Background(), hit("1"), hit("2"), hit("1")) {
		fmt.Println(o.Kind, o.Settled(), string(o.Reply.Body))
	}
	// Output:
	// processed true 1
	// processed true 2
	// duplicate true 1
}

// Call processes one message for a waiting caller. Only the caller retries.
func ExampleSystem_Call() {
	sys := oncetest.New()
	tries := 0
	once.Handle(sys.System, "lookups", func(_ context.Context, a *once.Attempt[once.Stateless], _ once.Message) error {
		if tries++; tries == 1 {
			return errors.New("timeout")
		}
		a.Reply(http.StatusOK, once.Text("found"))
		return nil
	})

	m := once.Message{Stream: "lookups", ID: "l-1"}
	for {
		o := sys.Call(context.Background(), m)
		if o.Settled() {
			fmt.Println(o.Kind, string(o.Reply.Body))
			break
		}
		fmt.Println(o.Kind, o.Err)
	}
	// Output:
	// retry handle message: timeout
	// processed found
}

// A body is bytes with a media type and headers.
func ExampleBody_WithHeader() {
	csv := once.Bytes("text/csv", []byte("a,b\n")).WithHeader("X-Rows", "1")

	sys := oncetest.New("files")
	once.Handle(sys.System, "exports", func(_ context.Context, a *once.Attempt[once.Stateless], _ once.Message) error {
		a.Send("files", csv)
		return nil
	})
	sys.Call(context.Background(), once.Message{Stream: "exports", ID: "e-1"})
	fmt.Println(sys.Sent("files")[0].ContentType, sys.Sent("files")[0].Headers["X-Rows"])
	// Output:
	// text/csv 1
}
