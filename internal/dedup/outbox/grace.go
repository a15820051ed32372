package outbox

import (
	"context"
	"time"
)

const (
	// graceTime is for how long after the deadline of a context its results may still be written.
	// The functions reserve that time before their own end.
	graceTime = 1500 * time.Millisecond
	// leastGraceTime is the minimum, for a call that begins after the deadline.
	leastGraceTime = 100 * time.Millisecond
)

// WithGrace returns a context that outlives ctx by 1.5 s, for writing down the results of sends. A
// send that is not recorded is repeated; if sending takes longer than ctx lasts, it would be
// repeated forever.
func WithGrace(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	switch {
	case ctx.Done() == nil:
		return ctx, func() {}
	case ok:
		deadline = deadline.Add(graceTime)
	case ctx.Err() == nil:
		return context.WithCancel(context.WithoutCancel(ctx))
	default: // cancelled by a caller that waits for the end
		return context.WithTimeout(context.WithoutCancel(ctx), graceTime)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), max(time.Until(deadline), leastGraceTime))
}
