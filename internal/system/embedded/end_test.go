package embedded_test

import (
	"errors"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
)

const endable = "streams: {room: {log: {retain: 1h}}, queued: {log: {retain: 1h}, direct: false}, chat: {admission: sequence, log: {retain: 1h}}, plain: {}}\n"

func TestALogEndsForItsWritersAndReaders(t *testing.T) {
	t.Parallel()
	r := (&place{t: t, dir: t.TempDir(), config: endable}).start()
	defer r.stop()
	tail := r.client.Tail("room", "g", client.TailOptions{})
	last := client.Message{Stream: "room", Key: "z", Group: "g", ContentType: "text/plain", Body: []byte("bye"), End: true}
	r.send(t, client.Message{Stream: "room", Key: "a", Group: "g", ContentType: "text/plain", Body: []byte("hello")})
	r.send(t, last)
	if receipt := r.send(t, last); !receipt.Replayed {
		t.Errorf("the same end again: %+v", receipt)
	}
	late := client.Message{Stream: "room", Key: "b", Group: "g"}
	for _, wait := range []time.Duration{0, time.Second} {
		late.Wait = wait
		if _, err := r.client.Send(t.Context(), late); !errors.Is(err, client.Ended) {
			t.Errorf("a message behind the end: %v", err)
		}
	}
	results := r.client.SendBatch(t.Context(), []client.Message{{Stream: "room", Key: "c", Group: "g"}, {Stream: "room", Key: "d", Group: "other"}})
	if !errors.Is(results[0].Err, client.Ended) || results[1].Err != nil {
		t.Errorf("a batch: %+v", results)
	}
	var kinds []string
	for {
		e, err := tail.Next(t.Context())
		if errors.Is(err, client.ErrEnd) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, e.Kind+" "+e.ID)
	}
	if len(kinds) != 3 || kinds[2] != "end z" {
		t.Errorf("entries: %q", kinds)
	}
	if n := r.idle(t).DeadLetters; n != 0 {
		t.Errorf("%d dead letters of messages whose senders know that they were refused", n)
	}
	if _, err := r.client.Send(t.Context(), client.Message{Stream: "plain", Key: "z", End: true}); !errors.Is(err, client.InvalidMessage) {
		t.Errorf("the end of no log: %v", err)
	}
}

func TestAnAcceptedMessageBehindTheEndIsADeadLetter(t *testing.T) {
	t.Parallel()
	r := (&place{t: t, dir: t.TempDir(), config: endable}).start()
	defer r.stop()
	r.send(t, client.Message{Stream: "queued", Key: "z", Group: "g", End: true})
	r.idle(t)
	late := client.Message{Stream: "queued", Key: "b", Group: "g"}
	r.send(t, late)                                                                              // on the queue
	r.send(t, client.Message{Stream: "chat", Group: "g", Source: "ann", Sequence: 2})            // held
	r.send(t, client.Message{Stream: "chat", Group: "g", Source: "bob", Sequence: 1, End: true}) // not held
	if n := r.idle(t).DeadLetters; n != 2 {
		t.Errorf("%d dead letters", n)
	}
	letters, err := r.DeadLetters(t.Context(), admin.DeadLettersOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range letters {
		if l.Reason != "ended" {
			t.Errorf("%+v", l)
		}
	}
	late.Wait = 30 * time.Second
	if _, err := r.client.Send(t.Context(), late); !errors.Is(err, client.Ended) {
		t.Errorf("a caller that waits: %v", err)
	}
	ahead := client.Message{Stream: "chat", Group: "g", Source: "ann", Sequence: 9, Wait: time.Second}
	if _, err := r.client.Send(t.Context(), ahead); !errors.Is(err, client.Ended) {
		t.Errorf("a numbered message: %v", err)
	}
}
