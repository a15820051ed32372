package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/effectively-once/once/client"
)

// customer pays in once, and sends one transfer three times, as a customer without an answer would.
func customer(ctx context.Context, out io.Writer, url string) error {
	c, err := client.New(url, client.Options{MaxElapsed: time.Minute})
	if err != nil {
		return err
	}
	for _, order := range []struct {
		key string
		t   Transfer
	}{
		{"t-0", Transfer{To: "alice", Cents: 100}},
		{"t-1", Transfer{From: "alice", To: "bob", Cents: 70}},
		{"t-1", Transfer{From: "alice", To: "bob", Cents: 70}},
		{"t-1", Transfer{From: "alice", To: "bob", Cents: 70}},
	} {
		r, err := c.Send(ctx, client.Message{
			Stream: "transfers", Key: order.key, Group: "alice",
			ContentType: "application/json", Body: []byte(encode(order.t)), Wait: 10 * time.Second,
		})
		if err != nil {
			return err
		}
		if r.Reply == nil {
			return fmt.Errorf("transfer %s is %s: no reply in time", order.key, r.Status)
		}
		again := ""
		if r.Reply.Replayed {
			again = " again"
		}
		if _, err := fmt.Fprintf(out, "%s %d %s%s\n", order.key, r.Reply.Status, r.Reply.Body, again); err != nil {
			return err
		}
	}
	return nil
}

func encode(t Transfer) string {
	b, _ := json.Marshal(t) // strings and numbers always encode
	return string(b)
}
