package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/oncetest"
)

func bank() *oncetest.System {
	sys := oncetest.New("bank", "mail")
	once.Handle(sys.System, "transfers", transfer)
	return sys
}

func message(id string, t Transfer) once.Message {
	return once.Message{Stream: "transfers", ID: id, Group: "alice", Body: []byte(encode(t))}
}

func TestATransferDeliveredThreeTimesMovesMoneyOnce(t *testing.T) {
	sys := bank()
	in := message("t-0", Transfer{To: "alice", Cents: 100})
	out := message("t-1", Transfer{From: "alice", To: "bob", Cents: 70})
	kinds := []once.Kind{once.Processed, once.Processed, once.Duplicate, once.Duplicate}
	for i, o := range sys.Process(t.Context(), in, out, out, out) {
		if o.Kind != kinds[i] || o.Reply == nil || o.Reply.Status != 201 {
			t.Errorf("outcome %d is %+v", i, o)
		}
	}
	if again := sys.Call(t.Context(), out); again.Kind != once.Duplicate || string(again.Reply.Body) != `{"ID":"t-1","Balance":30}` {
		t.Errorf("a late duplicate got %+v", again)
	}
	account, err := oncetest.State[Account](t.Context(), sys, "transfers", "alice")
	if err != nil || account.Cents != 30 {
		t.Errorf("the account has %d cents, %v", account.Cents, err)
	}
	want := []oncetest.Effect{{
		Identity: "transfers/alice/1", Group: "bob",
		ContentType: "application/json", Body: `{"From":"alice","To":"bob","Cents":70}`,
	}}
	if diff := cmp.Diff(want, sys.Sent("bank")); diff != "" {
		t.Errorf("sent to the bank (-want +got):\n%s", diff)
	}
	if n := len(sys.Sent("mail")); n != 1 {
		t.Errorf("%d mails", n)
	}
}

func TestATransferWithoutCoverIsADecision(t *testing.T) {
	sys := bank()
	out := message("t-1", Transfer{From: "alice", To: "bob", Cents: 70})
	first := sys.Call(t.Context(), out)
	sys.Call(t.Context(), message("t-2", Transfer{To: "alice", Cents: 100}))
	again := sys.Call(t.Context(), out)
	if first.Kind != once.Processed || again.Kind != once.Duplicate || first.Reply.Status != 409 || again.Reply.Status != 409 {
		t.Errorf("got %+v, then %+v", first, again)
	}
	if n := len(sys.Sent("bank")); n != 0 {
		t.Errorf("%d transfers sent", n)
	}
}

func TestAMessageThatIsNoTransferIsRejected(t *testing.T) {
	for _, body := range []string{"", "{", `{"From":"alice","Cents":-5}`, `{"From":"bob","To":"carol","Cents":5}`} {
		o := bank().Call(t.Context(), once.Message{Stream: "transfers", ID: "t-1", Group: "alice", Body: []byte(body)})
		if o.Kind != once.Rejected || o.Reason != "rejected" {
			t.Errorf("%s: got %+v", body, o)
		}
	}
}
