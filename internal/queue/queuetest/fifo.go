package queuetest

import (
	"strconv"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue"
)

func needsGroup(b *bench) {
	b.open(Options{})
	m := b.message("", "x")
	if r := b.queue.Send(b.Context(), []queue.Message{m}); r[0].Err == nil {
		b.Error("sent without a group")
	}
	b.nothing()
}

// drain receives and deletes n messages, and returns the bodies of each group in order.
func (b *bench) drain(n int) map[string][]string {
	b.Helper()
	got := map[string][]string{}
	for n > 0 {
		batch := b.collect(1, b.Unit)
		for _, d := range batch {
			got[d.Group] = append(got[d.Group], d.Body)
		}
		b.delete(batch...)
		n -= len(batch)
	}
	return got
}

func order(b *bench) {
	b.open(Options{})
	want := map[string][]string{}
	for i := range 30 {
		group := "g" + strconv.Itoa(i%3)
		b.send(b.message(group, numbered(i)))
		want[group] = append(want[group], numbered(i))
	}
	if diff := cmp.Diff(want, b.drain(30)); diff != "" {
		b.Errorf("order in groups (-sent +received):\n%s", diff)
	}
}

func oneInFlight(b *bench) {
	b.open(Options{})
	b.send(b.message("g", "1"), b.message("g", "2"))
	first := b.collect(1, 3*b.Unit)
	b.want(first, "1")
	b.nothing()
	b.delete(first...)
	b.want(b.collect(1, b.Unit), "2")
}

func severalOfOneGroup(b *bench) {
	b.open(Options{})
	b.send(b.message("g", "1"), b.message("g", "2"), b.message("g", "3"))
	got := b.receive(10, 3*b.Unit)
	if len(got) == 0 {
		b.Fatal("nothing came")
	}
	b.want(got, []string{"1", "2", "3"}[:len(got)]...)
	for i, d := range got {
		b.nothing()
		got[i] = d
		b.delete(d)
	}
	b.send(b.message("g", "4"))
	rest := b.drain(4 - len(got))["g"]
	if diff := cmp.Diff([]string{"1", "2", "3", "4"}[len(got):], rest); diff != "" {
		b.Errorf("the rest (-want +got):\n%s", diff)
	}
}

func failedBlocksItsGroup(b *bench) {
	b.open(Options{})
	b.send(b.message("bad", "1"), b.message("bad", "2"), b.message("good", "3"))
	var failed queue.Delivery
	for range 2 {
		switch d := b.one(2 * b.Unit); d.Group {
		case "bad":
			failed = d
		default:
			b.delete(d)
		}
	}
	if failed.Body != "1" {
		b.Fatalf("%q came first", failed.Body)
	}
	b.nothing()
	b.send(b.message("good", "4"))
	b.want(b.collect(1, b.Unit), "4")
	b.pass(3)
	if got := b.drain(3)["bad"]; !cmp.Equal(got, []string{"1", "2"}) {
		b.Errorf("the failed group gave %v", got)
	}
}

func groupsInParallel(b *bench) {
	b.open(Options{})
	for i := range 5 {
		b.send(b.message("g"+strconv.Itoa(i), "first"), b.message("g"+strconv.Itoa(i), "second"))
	}
	seen := map[string]bool{}
	for range 5 {
		d := b.one(5 * b.Unit)
		if d.Body != "first" || seen[d.Group] {
			b.Fatalf("%s of %s, when %v are in flight", d.Body, d.Group, seen)
		}
		seen[d.Group] = true
	}
	b.nothing()
}

func concurrentReceivers(b *bench) {
	if !b.fifo && !b.Exact {
		b.Log("a standard queue may repeat a message at any time: only that nothing is lost is checked")
	}
	b.open(Options{})
	const n = 200
	var messages []queue.Message
	for i := range n {
		messages = append(messages, b.message("g"+strconv.Itoa(i), numbered(i)))
	}
	b.send(messages...)
	var mu sync.Mutex
	seen := map[string]int{}
	var receivers sync.WaitGroup
	for range 8 {
		receivers.Go(func() {
			for {
				out, err := b.queue.Receive(b.Context(), 7, 100*b.Unit, b.Patience)
				if err != nil {
					b.Errorf("receive: %v", err)
				}
				if len(out) == 0 {
					return
				}
				mu.Lock()
				for _, d := range out {
					seen[d.Body]++
				}
				mu.Unlock()
			}
		})
	}
	receivers.Wait()
	if len(seen) != n {
		b.Errorf("%d messages came, want %d", len(seen), n)
	}
	for body, times := range seen {
		if times != 1 && (b.fifo || b.Exact) {
			b.Errorf("%s came %d times", body, times)
		}
	}
}

func concurrentSenders(b *bench) {
	b.open(Options{})
	const senders, each = 8, 20
	var all sync.WaitGroup
	for s := range senders {
		all.Go(func() {
			for i := range each {
				m := queue.Message{Body: numbered(s) + "/" + numbered(i)}
				if b.fifo {
					m.Group, m.DedupID = numbered(s), m.Body
				}
				if r := b.queue.Send(b.Context(), []queue.Message{m}); r[0].Err != nil {
					b.Errorf("send: %v", r[0].Err)
				}
			}
		})
	}
	all.Wait()
	got := b.drain(senders * each)
	for s := range senders {
		if !b.fifo {
			break
		}
		for i, body := range got[numbered(s)] {
			if want := numbered(s) + "/" + numbered(i); body != want {
				b.Fatalf("%s came when it was the turn of %s", body, want)
			}
		}
	}
}

func deduplicates(b *bench) {
	b.open(Options{Deduplicate: true})
	m := b.message("g", "original")
	first := b.send(m)[0]
	m.Body = "repeated"
	again := b.send(m)[0]
	if again.ID != first.ID || again.SequenceNumber != first.SequenceNumber {
		b.Errorf("first %+v, repeated %+v", first, again)
	}
	got := b.collect(1, b.Unit)
	b.want(got, "original")
	b.delete(got...)
	b.send(m) // deleted, but still remembered
	b.nothing()
	b.Advance(b.T, 5*time.Minute+b.Unit)
	b.send(m)
	b.want(b.collect(1, b.Unit), "repeated")
}
