package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
)

// stockExample is examples/stock: a warehouse, in which a group is one item. Less comes in than is
// ordered, so it sells out.
func stockExample() *handlerExample {
	return &handlerExample{stream: "stock", load: stockLoad, judge: judgeStock}
}

// A stockChange is the body of a message, and of an effect. In this load, Add is the number of the
// operation: more than it is taken if pieces go out, less if they come in.
type stockChange struct{ Add, Take int }

const (
	stockItems      = 6
	stockOperations = 240
)

func stockLoad(random *rand.Rand) []operation {
	load := make([]operation, stockOperations)
	for i := range load {
		c := stockChange{Add: 10 + i}
		if random.IntN(3) == 0 {
			c.Take = c.Add - 1 - random.IntN(4) // a delivery
		} else {
			c.Take = c.Add + 1 + random.IntN(3) // an order
		}
		body, _ := json.Marshal(c) // a struct of numbers
		load[i] = operation{key: fmt.Sprint("operation-", i), group: fmt.Sprint("item-", random.IntN(stockItems)), body: string(body)}
	}
	return load
}

// judgeStock checks that the warehouse got each change that was made once, in the order in which
// they were made: each reply has the number of pieces on hand after its change, which is never
// negative.
func judgeStock(v *verdict, h *handled) {
	lines, err := readLines(h.path("out/warehouse.jsonl"))
	if err != nil {
		v.add("%v", err)
	}
	made := map[string]bool{}
	onHand, numbers := map[string]int{}, map[string]uint64{}
	for _, l := range lines {
		var c stockChange
		if json.Unmarshal(l.Body, &c) != nil || c.Add < 10 || c.Add >= 10+len(h.load) {
			v.add("the warehouse got %s, which was not sent", l.Body)
			continue
		}
		o := h.load[c.Add-10]
		if o.group != l.Group || o.body != string(l.Body) {
			v.add("the warehouse got %s of %s, want %s of %s", l.Body, l.Group, o.body, o.group)
		}
		if made[o.key] {
			v.add("the warehouse got %s of %s twice", o.key, l.Group)
		}
		made[o.key] = true
		if numbers[l.Group]++; l.Number != numbers[l.Group] {
			v.add("the line for %s has the number %d of %s, want %d", o.key, l.Number, l.Group, numbers[l.Group])
		}
		if onHand[l.Group] += c.Add - c.Take; onHand[l.Group] < 0 {
			v.add("%s sold a piece of %s that was not on hand", o.key, l.Group)
		}
		want := handlerReply{status: http.StatusOK, body: fmt.Sprintf(`{"OnHand":%d}`, onHand[l.Group])}
		if got, ok := h.replyTo(o); ok && got != want {
			v.add("%s was answered %+v, want %+v as in the order of the changes", o.key, got, want)
		}
	}
	judgeStockReplies(v, h, made)
}

// judgeStockReplies checks that each change with a reply was made, and that each refusal has its
// reason.
func judgeStockReplies(v *verdict, h *handled, made map[string]bool) {
	refused := 0
	for _, o := range h.load {
		r, ok := h.replyTo(o)
		switch {
		case !ok:
		case r.status == http.StatusOK && !made[o.key], r.status != http.StatusOK && made[o.key]:
			v.add("%s was answered %+v; the warehouse got it: %v", o.key, r, made[o.key])
		case r.status != http.StatusOK:
			refused++
			if r.body != "not enough in stock" {
				v.add("%s was refused: %s; want only for want of stock", o.key, r.body)
			}
		}
	}
	if refused == 0 || len(made) < len(h.load)/4 {
		v.add("%d refusals and %d changes: want some of both", refused, len(made))
	}
}
