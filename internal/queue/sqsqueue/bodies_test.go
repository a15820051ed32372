package sqsqueue_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/claimcheck"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
)

// kept are bodies in memory. The first calls of Put fail: before they write, or after it.
type kept struct {
	bodies        map[string]string
	before, after int
}

func (k *kept) Put(_ context.Context, name string, body []byte) error {
	if k.before > 0 {
		k.before--
		return errAway
	}
	k.bodies[name] = string(body)
	if k.after > 0 {
		k.after--
		return errAway
	}
	return nil
}

func (k *kept) Get(_ context.Context, name string) ([]byte, bool, error) {
	body, ok := k.bodies[name]
	return []byte(body), ok, nil
}

func anyone(*queue.Delivery) bool { return true }

func TestAMessageIsNotSentWithoutItsBody(t *testing.T) {
	for name, k := range map[string]*kept{"not written": {before: 1}, "the answer is lost": {after: 1}} {
		k.bodies = map[string]string{}
		p := &picky{}
		q := sqsqueue.New(p, "https://sqs.test/1/orders").WithBodies(k, anyone)
		large := queue.Message{Body: strings.Repeat("x", queue.MaxSize+1)}
		r := q.Send(t.Context(), []queue.Message{{Body: "small"}, large, {Body: "other"}})
		if r[0].Err != nil || !errors.Is(r[1].Err, errAway) || r[2].Err != nil || len(p.entries) != 2 {
			t.Errorf("%s: results %v, %d entries", name, r, len(p.entries))
		}
		if r := q.Send(t.Context(), []queue.Message{large}); r[0].Err != nil || len(p.entries) != 3 {
			t.Fatalf("%s: not sent when the bucket is back: %v", name, r)
		}
		body := aws.ToString(p.entries[2].MessageAttributes[claimcheck.Attribute].StringValue)
		if k.bodies[body] != large.Body {
			t.Errorf("%s: the message names %q", name, body)
		}
		if len(large.Body) != queue.MaxSize+1 || large.Attributes != nil {
			t.Errorf("%s: the caller's message was changed", name)
		}
	}
}

func TestAMessageThatWasNotSentIsSentWithAnotherBody(t *testing.T) {
	k, p := &kept{bodies: map[string]string{}}, &picky{}
	q := sqsqueue.New(p, "https://sqs.test/1/orders").WithBodies(k, anyone)
	large := queue.Message{Body: strings.Repeat("x", queue.MaxSize+1)}
	for range 2 {
		if r := q.Send(t.Context(), []queue.Message{large}); r[0].Err != nil {
			t.Fatal(r[0].Err)
		}
	}
	if len(k.bodies) != 2 {
		t.Errorf("two messages, of which each may be deleted, share %d bodies", len(k.bodies))
	}
}

func TestAMessageThatSQSTakesIsNotKeptElsewhere(t *testing.T) {
	k, p := &kept{bodies: map[string]string{}}, &picky{}
	q := sqsqueue.New(p, "https://sqs.test/1/orders").WithBodies(k, anyone)
	for body, elsewhere := range map[int]int{queue.MaxSize - 8: 0, queue.MaxSize - 7: 1} { // SQS counts the type of the attribute
		r := q.Send(t.Context(), []queue.Message{{Body: strings.Repeat("x", body), Attributes: map[string]string{"a": "b"}}})
		if r[0].Err != nil || len(k.bodies) != elsewhere {
			t.Errorf("%d bytes: %d bodies elsewhere, %v", body, len(k.bodies), r[0].Err)
		}
		clear(k.bodies)
	}
}

func TestOnlyAQueueWithBodiesTakesLargeMessages(t *testing.T) {
	p := &picky{}
	q := sqsqueue.New(p, "https://sqs.test/1/orders")
	large := queue.Message{Body: strings.Repeat("x", queue.MaxSize+1)}
	if r := q.Send(t.Context(), []queue.Message{large}); r[0].Err == nil || queue.Largest(q) != queue.MaxSize {
		t.Errorf("%v, largest %d", r, queue.Largest(q))
	}
	large.Body = strings.Repeat("x", queue.MaxLarge+1)
	k := &kept{bodies: map[string]string{}}
	if r := q.WithBodies(k, anyone).Send(t.Context(), []queue.Message{large}); r[0].Err == nil || len(k.bodies) > 0 || len(p.entries) > 0 {
		t.Errorf("%v, %d bodies, %d entries", r, len(k.bodies), len(p.entries))
	}
}
