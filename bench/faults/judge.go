package main

import (
	"context"
	"fmt"
	"time"
)

// A result is the result of one trial, in absolute numbers.
type result struct {
	Consumer string  `json:"consumer"`
	Fault    fault   `json:"fault"`
	Faults   int     `json:"faults"`
	Messages int     `json:"messages"`
	Seconds  float64 `json:"seconds"`

	StateLost    int `json:"state_lost"`
	StateDoubled int `json:"state_doubled"` // changes beyond the first
	SendsLost    int `json:"sends_lost"`
	SendsDoubled int `json:"sends_doubled"` // sends beyond the first, with any identity
	SendsUnknown int `json:"sends_unknown"` // sends about no message that was offered

	// Of the sends beyond the first:
	OtherIdentity int `json:"other_identity"` // with an identity that the first did not have
	OtherContent  int `json:"other_content"`  // with other content
	ByKey         int `json:"doubled_by_key"` // new to a receiver that remembers identities
	// new to a receiver that remembers the last number of a group; of numbered sends
	BySequence int `json:"doubled_by_sequence"`
	ByDedup    int `json:"doubled_by_fifo"` // new to a first-in-first-out queue

	DeadLetters int `json:"dead_letters"`
	// deliveries that exceeded the visibility timeout without a fault: the machine was too busy
	Late int `json:"late"`
}

// conduct plays a trial and counts the results.
func conduct(ctx context.Context, t *trial) (result, error) {
	began := time.Now()
	if err := t.play(ctx); err != nil {
		return result{}, fmt.Errorf("%s, %s: %w", t.consumer.name, t.fault, err)
	}
	r := result{Consumer: t.consumer.name, Fault: t.fault, Faults: t.struck, Messages: len(t.offered), DeadLetters: t.broker.left("dead"), Late: t.late}
	r.SendsUnknown = t.sends.unknown(t.offered)
	for _, id := range t.offered {
		n, err := t.tables.count(ctx, t.consumer, id)
		if err != nil {
			return r, fmt.Errorf("count %s: %w", id, err)
		}
		r.state(n)
		r.sent(t.sends.about(id), t.consumer.fifo)
	}
	r.Seconds = time.Since(began).Seconds()
	return r, nil
}

func (r *result) state(n int) {
	if n == 0 {
		r.StateLost++
		return
	}
	r.StateDoubled += n - 1
}

func (r *result) sent(all []send, fifo bool) {
	if len(all) == 0 {
		r.SendsLost++
		return
	}
	r.SendsDoubled += len(all) - 1
	for _, s := range all[1:] {
		if s.Identity != all[0].Identity {
			r.OtherIdentity++
		}
		if string(s.Body) != string(all[0].Body) {
			r.OtherContent++
		}
	}
	byKey, bySequence, byDedup := admitted(all)
	r.ByKey += byKey - 1
	if all[0].Number > 0 {
		r.BySequence += bySequence - 1
	}
	if fifo {
		r.ByDedup += byDedup - 1
	}
}
