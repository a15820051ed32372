package outbox

import (
	"context"
	"time"
)

// notingTime is how long after the end of a context what was sent may still be noted. The functions leave it that time before their own end.
const notingTime = 1500 * time.Millisecond

// Noting is a context for writing down what was sent. It outlives ctx by a moment: what is sent and not noted is sent again, and where sending takes longer than the context
// lasts, again and again.
func Noting(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := notingTime
	if deadline, ok := ctx.Deadline(); ok {
		limit += max(0, time.Until(deadline))
	}
	done := context.WithoutCancel(ctx)
	if _, ok := ctx.Deadline(); !ok && ctx.Err() == nil {
		return context.WithCancel(done)
	}
	return context.WithTimeout(done, limit)
}
