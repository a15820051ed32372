package session

import (
	"context"
	"sync/atomic"
)

// A turn lets one caller of this process at a time ask a pool for entries: of several writes of one
// record only one succeeds, and the others would be repeated. It only saves work; the condition of
// the write decides.
type turn struct {
	held chan struct{} // takes one value
	over atomic.Int64  // how many turns are over
}

func newTurns(pools map[string]Pool) map[string]*turn {
	turns := map[string]*turn{}
	for stream := range pools {
		turns[stream] = &turn{held: make(chan struct{}, 1)}
	}
	return turns
}

// take waits until nobody has the turn, and takes it. It returns the context's cause if that ends
// first.
func (t *turn) take(ctx context.Context) error {
	select {
	case t.held <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *turn) leave() {
	t.over.Add(1)
	<-t.held
}
