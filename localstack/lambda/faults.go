package main

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/localstack/lambda/host"
)

// faults configure fault injection. The zero value injects none.
type faults struct {
	// KillEvery is the mean time between kills. Each kills a random process, in any state.
	KillEvery time.Duration
	// KillNth kills the process of each invocation whose number is a multiple of it, at a random
	// moment of the invocation or after it has answered. If zero: none.
	KillNth int64
	// Duplicate is the share of deliveries, from 0 to 1, that are delivered a second time:
	// concurrently with the first, or up to two seconds later.
	Duplicate float64
	// Hang is the share of invocations, from 0 to 1, in which the process stops at a random moment
	// and does nothing until the timeout kills it. The tenth hangs in any case: a short run has a hang
	// too.
	Hang float64
}

const (
	hangWithin = 30 * time.Millisecond // of the beginning of the invocation
	killWithin = 10 * time.Millisecond // likewise
	copyWithin = 2 * time.Second       // of the receipt of the batch
	// share of the duplicates that are concurrent with the first delivery
	copyAtOnce = 0.5
)

// A culprit injects faults, and counts them.
type culprit struct {
	faults
	kills, duplicates, hangs atomic.Int64
	invocations              atomic.Int64
	asked                    atomic.Int64 // invocations that could hang
}

// hang implements PoolOptions.Hang.
func (c *culprit) hang() (time.Duration, bool) {
	tenth := c.Hang > 0 && c.asked.Add(1) == 10
	if !tenth && rand.Float64() >= c.Hang { //nolint:gosec // chance is all that is asked for
		return 0, false
	}
	c.hangs.Add(1)
	return rand.N(hangWithin), true //nolint:gosec // likewise
}

// killNth implements PoolOptions.Kill.
func (c *culprit) killNth() (time.Duration, bool) {
	if c.KillNth == 0 || c.invocations.Add(1)%c.KillNth != 0 {
		return 0, false
	}
	c.kills.Add(1)
	return rand.N(killWithin), true //nolint:gosec // likewise
}

// again implements Source.Again.
func (c *culprit) again(batch []queue.Delivery) (chosen []queue.Delivery, after time.Duration) {
	for _, d := range batch {
		if rand.Float64() < c.Duplicate { //nolint:gosec // likewise
			chosen = append(chosen, d)
		}
	}
	c.duplicates.Add(int64(len(chosen)))
	if rand.Float64() >= copyAtOnce { //nolint:gosec // likewise
		after = rand.N(copyWithin) //nolint:gosec // likewise
	}
	return chosen, after
}

// kill kills processes until the context ends.
func (c *culprit) kill(ctx context.Context, pools []*host.Pool) {
	for c.KillEvery > 0 {
		t := time.NewTimer(rand.N(2 * c.KillEvery)) //nolint:gosec // likewise
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
		if pools[rand.IntN(len(pools))].Kill() { //nolint:gosec // likewise
			c.kills.Add(1)
		}
	}
}

// report logs the number of faults.
func (c *culprit) report(log *slog.Logger) {
	if c.faults != (faults{}) {
		log.Info("faults injected", "kills", c.kills.Load(), "duplicates", c.duplicates.Load(), "hangs", c.hangs.Load())
	}
}
