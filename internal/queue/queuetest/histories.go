package queuetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/testkit/history"
)

// The size of one round of histories: the number of concurrent callers, of phases, and of calls by
// each caller in a phase, with new messages.
const (
	callers   = 4
	phases    = 2
	callsEach = 10
	groups    = 4
	lostOneIn = 40 // for each kind of fault
	hidden    = 10 * time.Minute
	batch     = 10 // messages, and receipts, in one call
)

// Histories makes at least a number of operations on each kind of queue, from several goroutines
// concurrently, and checks that the results for each group, or on a standard queue each message,
// are linearizable. A call on several messages counts as several operations. In the end every
// message is received that was not deleted.
//
// On a queue that is Exact, replies are lost, contexts end, time passes, and receipts of earlier
// deliveries are used. On others, whose clock can't be moved, only replies are lost that hide no
// message. A standard queue that is not Exact guarantees too little to be tested.
func Histories(t *testing.T, h Harness, operations int) {
	t.Helper()
	if h.Unit == 0 {
		h.Unit = time.Minute
	}
	for _, fifo := range []bool{true, false} {
		if fifo || h.Exact {
			t.Run(map[bool]string{false: "standard", true: "fifo"}[fifo], func(t *testing.T) { histories(t, h, fifo, operations) })
		}
	}
}

func histories(t *testing.T, h Harness, fifo bool, operations int) {
	t.Helper()
	queues := make([]queue.Queue, max(1, h.Abreast))
	for lane := range queues {
		queues[lane] = h.New(t, Options{FIFO: fifo})
	}
	var rounds, broken atomic.Int32
	history.Play(t, h.Abreast, operations, func(lane, n int) *history.Log {
		r := &round{T: t, Harness: h, fifo: fifo, queue: queues[lane], name: fmt.Sprintf("%d.%d", lane, n), model: history.Of(line{}, stepper(h.LooseBatches))}
		rounds.Add(1)
		r.run()
		if err := r.broken.Load(); err != nil {
			t.Logf("round %s is left out: %v", r.name, *err)
			if n := broken.Add(1); n > 3 && 20*n > rounds.Load() {
				t.Errorf("%d of %d rounds are left out: nothing is shown by the others", n, rounds.Load())
			}
			// the old one hides messages that can't be made visible
			queues[lane] = h.New(t, Options{FIFO: fifo})
			return &history.Log{}
		}
		return &r.log
	})
}

// A round is the history of some messages.
type round struct {
	*testing.T
	Harness
	fifo  bool
	queue queue.Queue
	name  string
	model *history.Model
	log   history.Log
	// broken is why the results of this round are not checked: on a queue that is not Exact, a
	// message stays hidden if the reply to its receive is lost, and the test can't wait that long.
	broken atomic.Pointer[error]

	mu       sync.Mutex
	sends    []sending
	arrivals []arrival
	sent     map[string]int    // how many messages of each line were sent
	receipts map[string]handle // by receipt, for the model's small numbers
}

// A handle is the model's name of a delivery.
type handle struct {
	line   string
	number int32
}

func (r *round) run() {
	r.sent, r.receipts = map[string]int{}, map[string]handle{}
	all := make([]*caller, callers)
	for i := range all {
		all[i] = &caller{round: r, number: i, rnd: rand.New(rand.NewPCG(rand.Uint64(), 0))}
	}
	for range phases {
		var busy sync.WaitGroup
		for _, c := range all {
			busy.Go(func() {
				for range callsEach {
					c.call()
				}
			})
		}
		busy.Wait()
		if r.broken.Load() != nil {
			return
		}
		r.pass(all)
	}
	r.drain(all[0])
}

// pass makes received messages visible again.
func (r *round) pass(all []*caller) {
	if !r.Exact {
		for _, c := range all {
			c.giveBackAll()
		}
		return
	}
	began := r.log.Now()
	r.Advance(r.T, hidden+r.Unit)
	ended := r.log.Now()
	for o := range r.sent {
		r.log.Add(r.object(o), callers, call{do: "time passes"}, answer{}, began, ended)
	}
	for _, c := range all {
		if !r.fifo { // a standard queue may accept old receipts or not
			c.mine = nil
		}
	}
}

// drain deletes the remaining messages.
func (r *round) drain(c *caller) {
	for turn := 0; c.receive(batch, r.Patience, false) > 0; turn++ {
		for len(c.mine) > 0 {
			c.delete(batch, false)
		}
		if turn > groups*longest {
			r.Error("messages that were deleted come again and again")
			return
		}
	}
	for o := range r.sent {
		r.log.Add(r.object(o), c.number, call{do: "nothing is left"}, answer{}, r.log.Now(), r.log.Now())
	}
	r.addSends()
}

// endOf returns the time at which the call for one of several messages ended. If it is unknown
// whether a failed call was applied, endOf returns history.Never. Any other error fails the test.
func (c *caller) endOf(do string, err error, fault bool, ended int64) int64 {
	switch {
	case err == nil:
		return ended
	case !c.breaks(err) && (!fault || !c.Exact): // a call whose context may have ended may fail
		c.Errorf("%s: %v", do, err)
	}
	return history.Never
}

// breaks reports whether the round ends because of an error.
func (r *round) breaks(err error) bool {
	if err == nil || r.Lost == nil || !r.Lost(err) {
		return false
	}
	r.broken.CompareAndSwap(nil, &err)
	return true
}

func (r *round) object(line string) history.Object { return history.Object{Model: r.model, Name: line} }

// A caller makes one call after the other, and keeps the receipts that it received.
type caller struct {
	*round
	number int
	rnd    *rand.Rand
	mine   []string
}

func (c *caller) oneIn(n int) bool { return c.rnd.IntN(n) == 0 }

func (c *caller) call() {
	switch n := c.rnd.IntN(20); {
	case n < 5:
		c.send(c.several())
	case n < 12:
		fault := c.Exact && c.oneIn(lostOneIn)
		limit := 1
		if !fault { // if the reply is lost, the model knows only the first message
			limit += c.rnd.IntN(4)
		}
		c.receive(limit, 0, fault)
	case n < 17:
		c.delete(c.several())
	default:
		c.change(c.oneIn(lostOneIn))
	}
}

// several returns a random number of messages for a call, and whether its reply is lost. Then the
// number is 1, because each operation without a result doubles the number of orders to check.
func (c *caller) several() (n int, fault bool) {
	if c.oneIn(lostOneIn) {
		return 1, true
	}
	return 1 + c.rnd.IntN(groups), false
}

// make makes a call, and returns when it began and ended. If fault is true, the reply is lost; on
// an Exact queue the context may end too.
func (c *caller) make(fault bool, do func(context.Context)) (began, ended int64) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	began = c.log.Now()
	if fault && c.Exact {
		switch c.rnd.IntN(3) {
		case 0:
			cancel()
		case 1:
			go cancel()
		}
	}
	runtime.Gosched() // lets the other callers run
	do(ctx)
	runtime.Gosched()
	if fault {
		return began, history.Never
	}
	return began, c.log.Now()
}

// send sends one message of each of n lines. The contract promises nothing about the messages of
// one call together.
func (c *caller) send(n int, fault bool) {
	var messages []queue.Message
	var sends []sending
	for _, g := range c.rnd.Perm(groups)[:n] {
		line, n := c.place(g)
		if n > longest {
			continue
		}
		m := queue.Message{Body: line + "/" + strconv.Itoa(n)}
		if c.fifo {
			m.Group, m.DedupID = line, m.Body
		}
		messages, sends = append(messages, m), append(sends, sending{spot: spot{line, int32(n)}, client: c.number})
	}
	var results []queue.SendResult
	began, ended := c.make(fault, func(ctx context.Context) { results = c.queue.Send(ctx, messages) })
	for i, r := range results {
		s := &sends[i]
		s.began, s.ended = began, c.endOf("send", r.Err, fault, ended)
		s.lost = s.ended == history.Never
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sends = append(c.sends, sends...)
}

// place returns a line of messages and the number of the next one in it. On a standard queue each
// message has its own line.
func (c *caller) place(group int) (string, int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := c.name + "-" + strconv.Itoa(group)
	if !c.fifo {
		name = c.name + "-" + strconv.Itoa(len(c.sent))
	}
	c.sent[name]++
	return name, c.sent[name]
}
