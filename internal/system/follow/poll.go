package follow

import (
	"context"
	"time"

	"github.com/effectively-once/once/internal/backoff"
	"github.com/effectively-once/once/internal/record"
)

// The pauses of a Poller double from the shortest to the longest.
const (
	shortestPause = 100 * time.Millisecond
	longestPause  = time.Second
)

// A Poller looks again after pauses that double from 100 ms to 1 s. It is for processes that share
// the store with others: nobody tells them of an append, and every look costs a read.
type Poller struct{}

// Follow returns a follower of a group.
func (Poller) Follow(record.GroupKey) Follower { return &polled{pause: shortestPause} }

type polled struct{ pause time.Duration }

// Wait implements Follower.
func (p *polled) Wait(ctx context.Context) error {
	pause := p.pause
	p.pause = min(2*pause, longestPause)
	return backoff.Sleep(ctx, pause)
}

// Close implements Follower.
func (*polled) Close() {}
