package queuetest

import (
	"context"
	"errors"
	"net/http/httptrace"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue"
)

func sendReceiveDelete(b *bench) {
	b.open(Options{})
	sent := b.send(b.message("g", "hello"))[0]
	got := b.one(b.Unit)
	if got.Body != "hello" || got.ID != sent.ID || got.Receives != 1 || got.Receipt == "" || got.Sent.IsZero() {
		b.Fatalf("sent %+v, received %+v", sent, got)
	}
	if b.NoSequenceNumbers {
		sent.SequenceNumber = got.SequenceNumber
	}
	if b.fifo && (got.SequenceNumber == "" || got.SequenceNumber != sent.SequenceNumber || got.Group != "g" || got.DedupID != "1") {
		b.Fatalf("sent %+v, received %+v", sent, got)
	}
	b.delete(got)
	b.pass(2)
	b.nothing()
}

func empty(b *bench) {
	b.open(Options{})
	b.nothing()
	if results := b.queue.Send(b.Context(), nil); len(results) != 0 {
		b.Errorf("results for nothing: %v", results)
	}
	if results := b.queue.Delete(b.Context(), nil); len(results) != 0 {
		b.Errorf("results for nothing: %v", results)
	}
}

func hiddenThenAgain(b *bench) {
	b.open(Options{})
	b.send(b.message("g", "x"))
	first := b.one(2 * b.Unit)
	b.pass(1)
	b.nothing()
	b.pass(2)
	second := b.one(b.Unit)
	if second.ID != first.ID || second.Receives != 2 || second.Receipt == first.Receipt || !second.Sent.Equal(first.Sent) {
		b.Fatalf("first %+v, then %+v", first, second)
	}
}

func givenBack(b *bench) {
	b.open(Options{})
	b.send(b.message("g", "x"))
	b.giveBack(b.one(5 * b.Unit))
	if again := b.one(b.Unit); again.Receives != 2 {
		b.Fatalf("received %d times, want 2", again.Receives)
	}
}

func prolonged(b *bench) {
	b.open(Options{})
	b.send(b.message("g", "x"))
	d := b.one(b.Unit)
	if err := b.queue.ChangeVisibility(b.Context(), d.Receipt, 3*b.Unit); err != nil {
		b.Fatal(err)
	}
	b.pass(2)
	b.nothing()
	b.pass(2)
	b.one(b.Unit)
}

func lateProlong(b *bench) {
	b.open(Options{})
	b.send(b.message("g", "x"))
	d := b.one(b.Unit)
	b.pass(2)
	if err := b.queue.ChangeVisibility(b.Context(), d.Receipt, 10*b.Unit); err == nil {
		b.Error("prolonging an ended receipt reports success")
	}
	b.one(b.Unit)
}

func deleteTwice(b *bench) {
	b.open(Options{})
	b.send(b.message("g", "x"))
	first := b.one(5 * b.Unit)
	b.giveBack(first)
	second := b.one(b.Unit)
	// depending on the kind of queue, SQS returns success or an error
	b.queue.Delete(b.Context(), []string{first.Receipt})
	b.delete(second)
	b.queue.Delete(b.Context(), []string{second.Receipt})
	b.queue.Delete(b.Context(), []string{"never heard of"})
	b.pass(2)
	b.nothing()
	b.send(b.message("g", "y"))
	b.want(b.collect(1, b.Unit), "y")
}

func expiredReceipt(b *bench) {
	b.open(Options{})
	b.send(b.message("g", "x"))
	first := b.one(b.Unit)
	b.pass(2)
	b.queue.Delete(b.Context(), []string{first.Receipt})
	second := b.one(b.Unit)
	b.queue.Delete(b.Context(), []string{first.Receipt})
	b.pass(2)
	third := b.one(b.Unit)
	if second.ID != first.ID || third.ID != first.ID {
		b.Fatalf("%+v, %+v, %+v", first, second, third)
	}
	b.delete(third)
	b.pass(2)
	b.nothing()
}

func attributes(b *bench) {
	b.open(Options{})
	m := b.message("a/b~c", "Grüße 😀\n\t\"quoted\"")
	m.Attributes = map[string]string{"once-id": "käse/1", "plain": " spaces ", "Other.name_1": "日本語", "json": `{"a":["\u0000"]}`}
	b.send(m, b.message("other", "bare"))
	for _, d := range b.collect(2, b.Unit) {
		switch d.Body {
		case "bare":
			if len(d.Attributes) != 0 {
				b.Errorf("attributes from nowhere: %v", d.Attributes)
			}
		default:
			want := queue.Message{Body: m.Body, Attributes: m.Attributes, Group: m.Group, DedupID: m.DedupID}
			got := d.Message
			got.Sender = ""
			if diff := cmp.Diff(want, got); diff != "" {
				b.Errorf("message (-want +got):\n%s", diff)
			}
		}
	}
}

func manyAtOnce(b *bench) {
	b.open(Options{})
	var messages []queue.Message
	for i := range 25 {
		messages = append(messages, b.message("g"+numbered(i%5), numbered(i)))
	}
	sent := map[string]string{}
	for i, r := range b.send(messages...) {
		sent[r.ID] = messages[i].Body
	}
	got := map[string]string{}
	for len(got) < 25 {
		for _, d := range b.collect(1, b.Unit) {
			got[d.ID] = d.Body
			b.delete(d)
		}
	}
	if diff := cmp.Diff(sent, got); diff != "" {
		b.Errorf("bodies by id (-sent +received):\n%s", diff)
	}
}

func refused(b *bench) {
	b.open(Options{})
	bad := b.message("g", "a\x00b")
	good := b.message("g", "good")
	results := b.queue.Send(b.Context(), []queue.Message{bad, good, b.message("g", "")})
	if results[0].Err == nil || results[1].Err != nil || results[2].Err == nil {
		b.Fatalf("results %+v", results)
	}
	b.want(b.collect(1, 20*b.Unit), "good")
	b.nothing()
}

func largest(b *bench) {
	size := queue.Largest(b.open(Options{}))
	whole := strings.Repeat("x", size)
	if results := b.queue.Send(b.Context(), []queue.Message{b.message("g", whole+"x")}); results[0].Err == nil {
		b.Fatalf("a message of %d bytes was sent", size+1)
	}
	b.send(b.message("g", whole))
	if got := b.one(20 * b.Unit); got.Body != whole || got.Unread != nil || len(got.Attributes) > 0 {
		b.Fatalf("received %d bytes, attributes %v, %v", len(got.Body), got.Attributes, got.Unread)
	}
	b.nothing()
}

func delay(b *bench) {
	b.open(Options{})
	late, soon := b.message("", "late"), b.message("", "soon")
	late.Delay = 2 * b.Unit
	due := time.Now().Add(late.Delay) // when the machine is slow, the receives below may end later
	b.send(late, soon)
	b.want(b.collect(1, 10*b.Unit), "soon")
	for _, units := range []int{0, 1} {
		b.pass(units)
		if out := b.receive(10, b.Unit); len(out) > 0 {
			if b.want(out, "late"); time.Now().Before(due) {
				b.Fatal("a delayed message was received before its delay")
			}
			return
		}
	}
	b.pass(2)
	b.want(b.collect(1, b.Unit), "late")
}

func deadLetter(b *bench) {
	dead := b.open(Options{})
	live := b.open(Options{DeadLetter: dead, MaxReceives: 2})
	poison := b.message("g", "poison ☠")
	poison.Attributes = map[string]string{"once-id": "i/1", "once-stream": "s"}
	b.send(poison)
	for range 2 {
		d := b.one(b.Unit)
		if d.Body != poison.Body {
			b.Fatalf("received %+v", d)
		}
		b.giveBack(d)
	}
	b.nothing() // the receive that moves it
	b.queue = dead
	got := b.one(b.Unit)
	got.Sender = ""
	if b.NewDedupIDs {
		got.DedupID = poison.DedupID
	}
	if diff := cmp.Diff(poison, got.Message); diff != "" {
		b.Errorf("message (-sent +dead):\n%s", diff)
	}
	b.queue = live
	b.pass(2)
	b.nothing()
}

func deadLetterFreesGroup(b *bench) {
	dead := b.open(Options{})
	b.open(Options{DeadLetter: dead, MaxReceives: 1})
	b.send(b.message("g", "poison"), b.message("g", "next"))
	d := b.collect(1, b.Unit)
	b.want(d, "poison")
	b.giveBack(d[0])
	b.want(b.collect(1, b.Unit), "next")
}

// wait returns a time to wait for a message: the longest that SQS allows, or a time that no test
// outlives.
func (b *bench) wait() time.Duration {
	if b.Exact {
		return time.Hour
	}
	return 20 * time.Second
}

func wokenBySend(b *bench) {
	b.open(Options{})
	type answer struct {
		deliveries []queue.Delivery
		err        error
	}
	started, answered := make(chan struct{}), make(chan answer, 1)
	go func() {
		close(started)
		d, err := b.queue.Receive(b.Context(), 1, b.Unit, b.wait())
		answered <- answer{d, err}
	}()
	<-started
	b.send(b.message("g", "wake up"))
	select {
	case got := <-answered:
		if got.err != nil {
			b.Fatal(got.err)
		}
		b.want(got.deliveries, "wake up")
	case <-time.After(time.Minute):
		b.Fatal("the receiver still waits")
	}
}

// A patience is a context that ends as soon as somebody waits for its end.
type patience struct {
	context.Context
	end context.CancelFunc
}

func (p patience) Done() <-chan struct{} {
	p.end()
	return p.Context.Done()
}

func contextEnds(b *bench) {
	b.open(Options{})
	ctx, end := context.WithCancel(b.Context())
	defer end()
	if b.Exact {
		ctx = patience{ctx, end}
	} else { // a client also asks for the end before it sends its request
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { end() }})
	}
	got, err := b.queue.Receive(ctx, 1, b.Unit, b.wait())
	if len(got) > 0 || !errors.Is(err, context.Canceled) {
		b.Errorf("%v, %v", got, err)
	}
	b.send(b.message("g", "x"))
	if !b.Exact {
		b.pass(2) // a queue may still send the message to the cancelled receiver, and hide it
	}
	b.want(b.collect(1, b.Unit), "x")
}
