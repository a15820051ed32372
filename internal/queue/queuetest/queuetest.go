// Package queuetest is the conformance suite of the port in internal/queue: what every queue must do, local or SQS itself.
package queuetest

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue"
)

// A Harness tells the suite how to make queues and how time passes.
type Harness struct {
	// New makes an empty queue, and removes it when the test ends. Required.
	New func(t *testing.T, o Options) queue.Queue
	// Advance lets time pass: a local queue moves its clock, a real one sleeps. Required.
	Advance func(t *testing.T, d time.Duration)
	// Unit is a short time as the queue counts it, of whole seconds; visibility times and delays are small multiples of it. Defaults to a minute, which suits a
	// clock that is moved; about three seconds suit one that is waited for.
	Unit time.Duration
	// Patience is how long a receiver waits, in real time, before the suite believes that nothing comes. Defaults to 0.
	Patience time.Duration
	// Exact says that also a standard queue hides a received message from everybody; SQS promises that for first-in-first-out queues only.
	Exact bool
	// NoDeduplication leaves out the case of a queue that deduplicates.
	NoDeduplication bool
	// NoSequenceNumbers says that the answer to a send leaves out the sequence number, as that of an emulator to a batch.
	NoSequenceNumbers bool
	// NewDedupIDs says that a dead letter gets another deduplication id, as with an emulator.
	NewDedupIDs bool
	// LateReceipts says that a first-in-first-out queue takes receipts whose time has ended, as an emulator does: two cases are left out.
	LateReceipts bool
	// LooseBatches says that a message that is given back comes again while later ones, which were received together with it, are hidden, as with an emulator.
	LooseBatches bool
	// Lost says whether an error of a call leaves open what the call did, as that of a connection that broke; a client that repeats such calls by itself does not suit Histories,
	// which would not know of the first one. Defaults to no error.
	Lost func(error) bool
	// Parallel runs the cases side by side, which suits a queue whose time is waited for.
	Parallel bool
	// Abreast is how many rounds of Histories go on at a time, each on a queue of its own: for a queue that is not Exact, behind a network. Defaults to 1.
	Abreast int
}

// Options of a queue that the suite asks for.
type Options struct {
	FIFO bool
	// DeadLetter and MaxReceives are set together; DeadLetter was made by the same harness.
	DeadLetter  queue.Queue
	MaxReceives int
	// Deduplicate is the five minutes of SQS. Where it is not asked for, the queue may deduplicate all the same: the suite then sends distinct ids.
	Deduplicate bool
}

// Run runs the suite.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if h.Unit == 0 {
		h.Unit = time.Minute
	}
	for _, c := range cases {
		for _, fifo := range []bool{false, true} {
			if fifo && c.on == standard || !fifo && c.on >= firstInFirstOut {
				continue
			}
			kind := map[bool]string{false: "standard", true: "fifo"}[fifo]
			if h.LateReceipts && c.on == firstInFirstOutOnTime {
				continue
			}
			t.Run(kind+"/"+c.name, func(t *testing.T) {
				if h.Parallel {
					t.Parallel()
				}
				c.run(&bench{T: t, Harness: h, fifo: fifo})
			})
		}
	}
	if !h.NoDeduplication {
		t.Run("fifo/a second message with the same deduplication id within five minutes is taken for the first", func(t *testing.T) {
			deduplicates(&bench{T: t, Harness: h, fifo: true})
		})
	}
}

type kinds uint8

const (
	both kinds = iota
	standard
	firstInFirstOut
	firstInFirstOutOnTime // and only where receipts end
)

var cases = []struct {
	name string
	on   kinds
	run  func(*bench)
}{
	{"a sent message is received, and gone when it is deleted", both, sendReceiveDelete},
	{"an empty queue gives nothing and no error", both, empty},
	{"a received message is hidden until its visibility ends, then comes again under the same id", both, hiddenThenAgain},
	{"a visibility of zero gives a message back at once", both, givenBack},
	{"a prolonged visibility hides a message longer", both, prolonged},
	{"a receipt whose time has ended does not hide the message again", firstInFirstOutOnTime, lateProlong},
	{"deleting twice, with an old or an unknown receipt, is harmless", both, deleteTwice},
	{"an expired receipt does not delete", firstInFirstOutOnTime, expiredReceipt},
	{"attributes, unicode included, come back as they were sent", both, attributes},
	{"more than ten messages may be sent at once, each with its own id", both, manyAtOnce},
	{"a message that breaks a rule is refused and the others are sent", both, refused},
	{"a delayed message comes after its delay", standard, delay},
	{"a message without a group is refused", firstInFirstOut, needsGroup},
	{"messages of a group come in the order they were sent", firstInFirstOut, order},
	{"while one message of a group is in flight no other call gets one of the group", firstInFirstOut, oneInFlight},
	{"one receive takes several of a group in order and the group is free when all are settled", firstInFirstOut, severalOfOneGroup},
	{"a failed message comes again before the later ones of its group, and blocks no other group", firstInFirstOut, failedBlocksItsGroup},
	{"groups are in flight side by side", firstInFirstOut, groupsInParallel},
	{"a message received too often moves to the dead-letter queue unchanged", both, deadLetter},
	{"a dead-lettered message frees its group", firstInFirstOut, deadLetterFreesGroup},
	{"a receiver that waits is woken by a send", both, wokenBySend},
	{"a receiver that waits stops when its context ends", both, contextEnds},
	{"concurrent receivers never get one message twice while it is hidden", both, concurrentReceivers},
	{"concurrent senders lose nothing and keep the order of each", both, concurrentSenders},
}

// A bench is one case at work.
type bench struct {
	*testing.T
	Harness
	fifo   bool
	queue  queue.Queue
	nextID int
}

func (b *bench) open(o Options) queue.Queue {
	b.Helper()
	o.FIFO = b.fifo
	b.queue = b.New(b.T, o)
	return b.queue
}

// message makes a message, in the group on a first-in-first-out queue.
func (b *bench) message(group, body string) queue.Message {
	b.nextID++
	m := queue.Message{Body: body}
	if b.fifo {
		m.Group, m.DedupID = group, strconv.Itoa(b.nextID)
	}
	return m
}

func (b *bench) send(messages ...queue.Message) []queue.SendResult {
	b.Helper()
	results := b.queue.Send(b.Context(), messages)
	if len(results) != len(messages) {
		b.Fatalf("%d results for %d messages", len(results), len(messages))
	}
	for i, r := range results {
		if r.Err != nil {
			b.Fatalf("send message %d: %v", i, r.Err)
		}
		if r.ID == "" || b.fifo && r.SequenceNumber == "" && !b.NoSequenceNumbers {
			b.Fatalf("message %d has no id or no sequence number: %+v", i, r)
		}
	}
	return results
}

// receive receives once, and waits for something to come.
func (b *bench) receive(limit int, visibility time.Duration) []queue.Delivery {
	b.Helper()
	out, err := b.queue.Receive(b.Context(), limit, visibility, b.Patience)
	if err != nil {
		b.Fatalf("receive: %v", err)
	}
	if len(out) > limit {
		b.Fatalf("%d messages, at most %d were asked for", len(out), limit)
	}
	return out
}

// collect receives until there are n: a queue may give fewer than it is asked for.
func (b *bench) collect(n int, visibility time.Duration) []queue.Delivery {
	b.Helper()
	var out []queue.Delivery
	for len(out) < n {
		more := b.receive(min(10, n-len(out)), visibility)
		if len(more) == 0 {
			b.Fatalf("%d messages came, want %d: %v", len(out), n, bodies(out))
		}
		out = append(out, more...)
	}
	return out
}

func (b *bench) one(visibility time.Duration) queue.Delivery {
	b.Helper()
	return b.collect(1, visibility)[0]
}

func (b *bench) nothing() {
	b.Helper()
	if out := b.receive(10, b.Unit); len(out) > 0 {
		b.Fatalf("nothing should come, but %v did", bodies(out))
	}
}

func (b *bench) delete(deliveries ...queue.Delivery) {
	b.Helper()
	var receipts []string
	for _, d := range deliveries {
		receipts = append(receipts, d.Receipt)
	}
	for i, err := range b.queue.Delete(b.Context(), receipts) {
		if err != nil {
			b.Fatalf("delete %s: %v", receipts[i], err)
		}
	}
}

func (b *bench) giveBack(d queue.Delivery) {
	b.Helper()
	if err := b.queue.ChangeVisibility(b.Context(), d.Receipt, 0); err != nil {
		b.Fatalf("change visibility: %v", err)
	}
}

// pass lets units of time pass.
func (b *bench) pass(units int) { b.Advance(b.T, time.Duration(units)*b.Unit) }

func (b *bench) want(got []queue.Delivery, want ...string) {
	b.Helper()
	if diff := cmp.Diff(want, bodies(got)); diff != "" {
		b.Fatalf("bodies (-want +got):\n%s", diff)
	}
}

func bodies(deliveries []queue.Delivery) []string {
	var out []string
	for _, d := range deliveries {
		out = append(out, d.Body)
	}
	return out
}

func numbered(n int) string { return fmt.Sprintf("%03d", n) }

// within runs a call that must end long before its own time limit.
func (b *bench) within(limit time.Duration, call func(context.Context)) {
	b.Helper()
	start := time.Now()
	call(b.Context())
	if took := time.Since(start); took > limit {
		b.Fatalf("took %s, want less than %s", took, limit)
	}
}
