package queuetest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/testkit/history"
)

// longest is how many messages a line may have in a history.
const longest = 24

// A line is the content of a queue in one group, in order; on a standard queue, one message.
type line struct {
	messages [longest]waiting
	length   int
	places   int32 // of messages that are sent and will be received
}

// waiting is a message that was not deleted.
type waiting struct {
	number   int32
	receipt  int32 // the receipt that hides it; 0 if it is visible
	receives int32
}

func (l line) String() string { return fmt.Sprint(l.messages[:l.length]) }

// unknown is the receipt in a lost reply.
const unknown = -1

type call struct {
	do      string
	number  int32 // of the sent message
	place   int32 // of the sent message; 0 if it is never received
	receipt int32
}

type answer struct {
	got          []waiting // the messages of this line in a receive
	lost, failed bool
}

// stepper is the contract of a queue, see [queue.Queue]; of a loose one, see
// [Harness].LooseBatches.
func stepper(loose bool) func(l line, in call, out answer) (line, bool) {
	return func(l line, in call, out answer) (line, bool) {
		if in.do == "receive" {
			return l.receive(out, loose)
		}
		return l.step(in, out)
	}
}

func (l line) step(in call, out answer) (line, bool) {
	i := slices.IndexFunc(l.messages[:l.length], func(m waiting) bool { return m.receipt == in.receipt })
	switch in.do {
	case "send":
		if in.place > 0 {
			l.places++
			if in.place != l.places {
				return l, false
			}
		}
		l.messages[l.length] = waiting{number: in.number}
		l.length++
	case "delete": // an unknown, expired or repeated receipt is ignored
		if i >= 0 {
			copy(l.messages[i:], l.messages[i+1:])
			l.length--
			l.messages[l.length] = waiting{}
		}
	case "give back", "hide longer":
		if i >= 0 && in.do == "give back" {
			l.messages[i].receipt = 0
		}
		return l, out.lost || out.failed == (i < 0)
	case "time passes":
		for i := range l.messages {
			l.messages[i].receipt = 0
		}
	case "nothing is left":
		return l, l.length == 0
	}
	return l, true
}

// receive hides messages from the first one on, if none is hidden; in a loose queue, if none of the
// received ones is.
func (l line) receive(out answer, loose bool) (line, bool) {
	matter := l.length
	if loose {
		matter = min(len(out.got), matter)
	}
	blocked := slices.ContainsFunc(l.messages[:matter], func(m waiting) bool { return m.receipt != 0 })
	if out.lost {
		if !blocked && l.length > 0 {
			l.messages[0].receipt = unknown
			l.messages[0].receives++
		}
		return l, true
	}
	if blocked || len(out.got) > l.length {
		return l, false
	}
	for i, got := range out.got {
		m := &l.messages[i]
		m.receipt, m.receives = got.receipt, m.receives+1
		if *m != got {
			return l, false
		}
	}
	return l, true
}

// receive receives, and returns how many messages came.
func (c *caller) receive(limit int, wait time.Duration, fault bool) int {
	var got []queue.Delivery
	var err error
	began, ended := c.make(fault, func(ctx context.Context) { got, err = c.queue.Receive(ctx, limit, hidden, wait) })
	if fault {
		c.mu.Lock()
		defer c.mu.Unlock()
		for name := range c.sent {
			c.log.Add(c.object(name), c.number, call{do: "receive"}, answer{lost: true}, began, ended)
		}
		return 0
	}
	if c.breaks(err) {
		return 0
	}
	if err != nil {
		c.Errorf("receive: %v", err)
	}
	byLine := map[string][]waiting{}
	for _, d := range got {
		name, number, _ := strings.Cut(d.Body, "/")
		n, err := strconv.ParseInt(number, 10, 32)
		if err != nil {
			c.Errorf("received %q", d.Body)
			continue
		}
		byLine[name] = append(byLine[name], waiting{number: int32(n), receipt: c.note(d.Receipt, name), receives: int32(d.Receives)})
		c.mine = append(c.mine, d.Receipt)
	}
	c.arrive(byLine, ended)
	for name, list := range byLine {
		c.log.Add(c.object(name), c.number, call{do: "receive"}, answer{got: list}, began, ended)
	}
	return len(got)
}

func (c *caller) arrive(byLine map[string][]waiting, ended int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, list := range byLine {
		for _, m := range list {
			c.arrivals = append(c.arrivals, arrival{spot{name, m.number}, ended})
		}
	}
}

// note returns a small number for a receipt.
func (c *caller) note(receipt, line string) int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	h, ok := c.receipts[receipt]
	if !ok {
		h = handle{line, int32(len(c.receipts) + 1)}
		c.receipts[receipt] = h
	}
	return h.number
}

// receipt returns a random receipt of the caller and removes it from the list. If the queue ignores
// old receipts, it sometimes stays, to be used again.
func (c *caller) receipt() (string, handle, bool) {
	if len(c.mine) == 0 {
		return "", handle{}, false
	}
	i := c.rnd.IntN(len(c.mine))
	r := c.mine[i]
	if !c.Exact || !c.fifo || !c.oneIn(4) {
		c.mine = slices.Delete(c.mine, i, i+1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return r, c.receipts[r], true
}

// delete deletes up to n messages in one call. The contract promises nothing about all of them
// together.
func (c *caller) delete(n int, fault bool) {
	var receipts []string
	var handles []handle
	for range n {
		if r, h, ok := c.receipt(); ok {
			receipts, handles = append(receipts, r), append(handles, h)
		}
	}
	if len(receipts) == 0 {
		return
	}
	var errs []error
	began, ended := c.make(fault, func(ctx context.Context) { errs = c.queue.Delete(ctx, receipts) })
	for i, h := range handles {
		ended := c.endOf("delete", errs[i], fault, ended)
		c.log.Add(c.object(h.line), c.number, call{do: "delete", receipt: h.number}, answer{lost: ended == history.Never}, began, ended)
	}
}

// change makes a message visible, or hides it longer.
func (c *caller) change(fault bool) {
	r, h, ok := c.receipt()
	if !ok {
		return
	}
	do, visibility := "give back", time.Duration(0)
	if c.oneIn(4) {
		do, visibility = "hide longer", hidden
		c.mine = append(c.mine, r)
	}
	c.changeTo(do, r, h, visibility, fault)
}

func (c *caller) changeTo(do, receipt string, h handle, visibility time.Duration, fault bool) {
	var err error
	began, ended := c.make(fault, func(ctx context.Context) { err = c.queue.ChangeVisibility(ctx, receipt, visibility) })
	if c.breaks(err) {
		return
	}
	c.log.Add(c.object(h.line), c.number, call{do: do, receipt: h.number}, answer{failed: err != nil, lost: fault}, began, ended)
}

// giveBackAll makes all messages visible.
func (c *caller) giveBackAll() {
	for len(c.mine) > 0 {
		if r, h, ok := c.receipt(); ok {
			c.changeTo("give back", r, h, 0, false)
		}
	}
}
