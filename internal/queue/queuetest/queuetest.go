// Package queuetest is the conformance suite of the port in internal/queue, for embedded queues and
// SQS.
package queuetest

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue"
)

// A Harness makes queues, moves time, and declares the queue's deviations.
type Harness struct {
	// New returns an empty queue, which it removes when the test ends. Required.
	New func(t *testing.T, o Options) queue.Queue
	// Advance lets time pass: an embedded queue moves its clock, a real one sleeps. Required.
	Advance func(t *testing.T, d time.Duration)
	// Unit is a short time in whole seconds; visibility times and delays are small multiples of it.
	// It defaults to a minute, for a clock that is moved. For real time use about three seconds.
	Unit time.Duration
	// Patience is how long, in real time, the suite waits for a message before it decides that none
	// will arrive. Defaults to 0.
	Patience time.Duration
	// Exact says that a standard queue also hides a received message from all other receivers. SQS
	// promises that for first-in-first-out queues only.
	Exact bool
	// NoDeduplication leaves out the case of a queue that deduplicates.
	NoDeduplication bool
	// NoSequenceNumbers says that the results of a send have no sequence numbers, as in an
	// emulator's reply to a batch.
	NoSequenceNumbers bool
	// NewDedupIDs says that a dead letter gets another deduplication id, as in an emulator.
	NewDedupIDs bool
	// LateReceipts says that a first-in-first-out queue accepts receipts whose time has ended, as
	// an emulator does: two cases are left out.
	LateReceipts bool
	// LooseBatches says that a message that is made visible is redelivered although later ones,
	// received together with it, are still hidden, as in an emulator.
	LooseBatches bool
	// Lost reports whether an error leaves open whether the call was applied, as after a broken
	// connection. A client that retries such calls by itself can't be used in Histories, which
	// would not know of the first try. Defaults to false for every error.
	Lost func(error) bool
	// Parallel runs the cases concurrently, for a queue in real time.
	Parallel bool
	// Abreast is how many rounds of Histories run concurrently, each on its own queue: for a queue
	// that is not Exact, behind a network. Defaults to 1.
	Abreast int
}

// Options configure a queue for the suite.
type Options struct {
	FIFO bool
	// DeadLetter and MaxReceives are set together; DeadLetter was made by the same harness.
	DeadLetter  queue.Queue
	MaxReceives int
	// Deduplicate is the five minutes of SQS. If it is not set, the queue may deduplicate anyway:
	// the suite then sends distinct ids.
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
		t.Run("fifo/a second message with the same deduplication id within five minutes is treated as the first", func(t *testing.T) {
			deduplicates(&bench{T: t, Harness: h, fifo: true})
		})
	}
}

type kinds uint8

const (
	both kinds = iota
	standard
	firstInFirstOut
	firstInFirstOutOnTime // and only if receipts expire
)

var cases = []struct {
	name string
	on   kinds
	run  func(*bench)
}{
	{"a sent message is received, and gone when it is deleted", both, sendReceiveDelete},
	{"an empty queue returns nothing and no error", both, empty},
	{"a received message is hidden until its visibility ends, then redelivered with the same id", both, hiddenThenAgain},
	{"a visibility of zero makes a message visible immediately", both, givenBack},
	{"an extended visibility hides a message longer", both, prolonged},
	{"a receipt whose time has ended does not hide the message again", firstInFirstOutOnTime, lateProlong},
	{"deleting twice, with an old or an unknown receipt, is harmless", both, deleteTwice},
	{"an expired receipt does not delete", firstInFirstOutOnTime, expiredReceipt},
	{"attributes, unicode included, come back as they were sent", both, attributes},
	{"more than ten messages may be sent in one call, each with its own id", both, manyAtOnce},
	{"a message that breaks a rule is refused and the others are sent", both, refused},
	{"the largest message is received whole, and one of a byte more is refused", both, largest},
	{"a delayed message is received after its delay", standard, delay},
	{"a message without a group is refused", firstInFirstOut, needsGroup},
	{"messages of a group are received in the order they were sent", firstInFirstOut, order},
	{"while one message of a group is in flight no other call gets one of the group", firstInFirstOut, oneInFlight},
	{"one receive takes several of a group in order and the group is free when all are settled", firstInFirstOut, severalOfOneGroup},
	{"a failed message is redelivered before the later ones of its group, and blocks no other group", firstInFirstOut, failedBlocksItsGroup},
	{"messages of several groups are in flight concurrently", firstInFirstOut, groupsInParallel},
	{"a message received too often moves to the dead-letter queue unchanged", both, deadLetter},
	{"a dead-lettered message frees its group", firstInFirstOut, deadLetterFreesGroup},
	{"a receiver that waits is woken by a send", both, wokenBySend},
	{"a receiver that waits stops when its context ends", both, contextEnds},
	{"concurrent receivers never receive a hidden message", both, concurrentReceivers},
	{"concurrent senders lose nothing and keep the order of each", both, concurrentSenders},
}

// A bench runs one case.
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

// message returns a message, with a group on a first-in-first-out queue.
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

// receive receives once, and waits for a message.
func (b *bench) receive(limit int, visibility time.Duration) []queue.Delivery {
	b.Helper()
	out, err := b.queue.Receive(b.Context(), limit, visibility, b.Patience)
	if err != nil {
		b.Fatalf("receive: %v", err)
	}
	if len(out) > limit {
		b.Fatalf("%d messages, at most %d were asked for", len(out), limit)
	}
	for _, d := range out {
		if d.Queue != b.queue.Name() {
			b.Errorf("a delivery names the queue %q, want %q", d.Queue, b.queue.Name())
		}
	}
	return out
}

// collect receives until there are n messages, because a queue may return fewer than requested.
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
