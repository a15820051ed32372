package outbox

import (
	"context"
	"time"
)

const (
	// notingTime is how long after the deadline of a context what was sent may still be noted. The functions leave it that time before their own end.
	notingTime = 1500 * time.Millisecond
	// leastNotingTime is given to whoever comes even later.
	leastNotingTime = 100 * time.Millisecond
)

// Noting is a context for writing down what was sent. It outlives ctx by a moment: what is sent and not noted is sent again, and where sending takes longer than the context
// lasts, again and again.
func Noting(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	switch {
	case ctx.Done() == nil:
		return ctx, func() {}
	case ok:
		deadline = deadline.Add(notingTime)
	case ctx.Err() == nil:
		return context.WithCancel(context.WithoutCancel(ctx))
	default: // cancelled by somebody who waits for the end
		return context.WithTimeout(context.WithoutCancel(ctx), notingTime)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), max(time.Until(deadline), leastNotingTime))
}
