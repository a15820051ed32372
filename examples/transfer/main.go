// Command transfer moves money between accounts, effectively once: the same transfer is sent three times, and made once.
package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/oncetest"
)

func main() {
	ctx := context.Background()
	sys := oncetest.New("bank", "mail")
	once.Handle(sys.System, "transfers", transfer)
	send(ctx, sys.System, "t-0", Transfer{To: "alice", Cents: 100})
	for range 3 {
		send(ctx, sys.System, "t-1", Transfer{From: "alice", To: "bob", Cents: 70})
	}
	for _, name := range []string{"bank", "mail"} {
		for _, e := range sys.Sent(name) {
			fmt.Printf("%s got %s: %s\n", name, e.Identity, e.Body)
		}
	}
}

func send(ctx context.Context, sys *once.System, id string, t Transfer) {
	o := sys.Call(ctx, once.Message{Stream: "transfers", ID: id, Group: "alice", ContentType: "application/json", Body: []byte(encode(t))})
	if o.Reply == nil {
		fmt.Println(id, o.Kind, o.Err)
		return
	}
	fmt.Println(id, o.Kind, o.Reply.Status, string(o.Reply.Body))
}

func encode(t Transfer) string {
	b, _ := json.Marshal(t) // strings and numbers always encode
	return string(b)
}
