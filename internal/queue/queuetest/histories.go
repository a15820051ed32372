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

	"github.com/effectively-once/once/internal/history"
	"github.com/effectively-once/once/internal/queue"
)

// What one round of histories is: so many callers call one queue side by side, so often each in each of its phases, with messages that nobody has sent before.
const (
	callers   = 4
	phases    = 2
	callsEach = 10
	groups    = 4
	lostOneIn = 40 // of each kind of fault
	hidden    = 10 * time.Minute
	batch     = 10 // of messages, and receipts, at once
)

// Histories does at least so many operations on each kind of queue, from several goroutines at once, and checks that what was answered about each group, or on a standard queue each
// message, is linearizable. A call on several of them is as many operations. In the end every message is received that was not deleted. On a queue that is Exact answers get lost,
// contexts end, time passes, and the receipts of earlier deliveries are used; on others, where nobody can move the clock, only answers that no message waits for get lost. A standard
// queue that is not Exact promises too little.
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
			queues[lane] = h.New(t, Options{FIFO: fifo}) // the other one hides messages that nobody can give back
			return &history.Log{}
		}
		return &r.log
	})
}

// A round is the life of some messages.
type round struct {
	*testing.T
	Harness
	fifo  bool
	queue queue.Queue
	name  string
	model *history.Model
	log   history.Log
	// broken is why this round shows nothing: on a queue that is not Exact a message stays hidden when the answer to its receive gets lost, and nobody can wait for it.
	broken atomic.Pointer[error]

	mu       sync.Mutex
	sends    []sending
	arrivals []arrival
	sent     map[string]int    // how many messages of each line were sent
	receipts map[string]handle // by receipt, for the model's small numbers
}

// A handle is what the model knows a delivery as.
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

// pass makes visible again what was received and not deleted.
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
		if !r.fifo { // a standard queue may take old receipts, or not
			c.mine = nil
		}
	}
}

// drain deletes what is left.
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

// endOf is when a call about one of several things ended: never, where its error leaves open what it did. Any other error is wrong.
func (c *caller) endOf(do string, err error, fault bool, ended int64) int64 {
	switch {
	case err == nil:
		return ended
	case !c.breaks(err) && (!fault || !c.Exact): // a call whose context may have ended may fail
		c.Errorf("%s: %v", do, err)
	}
	return history.Never
}

// breaks tells whether the round ends for an error.
func (r *round) breaks(err error) bool {
	if err == nil || r.Lost == nil || !r.Lost(err) {
		return false
	}
	r.broken.CompareAndSwap(nil, &err)
	return true
}

func (r *round) object(line string) history.Object { return history.Object{Model: r.model, Name: line} }

// A caller calls one after the other, and keeps the receipts that it got.
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
		if !fault { // of a receive whose answer is lost the model knows the first message only
			limit += c.rnd.IntN(4)
		}
		c.receive(limit, 0, fault)
	case n < 17:
		c.delete(c.several())
	default:
		c.change(c.oneIn(lostOneIn))
	}
}

// several draws how many a call is about, and whether its answer gets lost. Then it is one: each operation without an answer doubles what the check has to think of.
func (c *caller) several() (n int, fault bool) {
	if c.oneIn(lostOneIn) {
		return 1, true
	}
	return 1 + c.rnd.IntN(groups), false
}

// make makes a call, and tells when it began and ended. Of one that is at fault the answer is lost; where cancelling leaves nothing behind, the context may end.
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
	runtime.Gosched() // who else calls at the same time is what this is about
	do(ctx)
	runtime.Gosched()
	if fault {
		return began, history.Never
	}
	return began, c.log.Now()
}

// send sends one message of each of n lines: nothing is promised about those of one call together.
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

// place gives a line of messages and the number of the next one in it. On a standard queue each message is alone.
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
