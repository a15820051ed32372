package session

import "context"

// turns let one caller of this process at a time ask a pool for entries: of several writes of one
// record only one succeeds, and the others would be repeated. They only save work; the condition of
// the write decides. Each turn is a channel that takes one value.
type turns map[string]chan struct{}

func newTurns(pools map[string]Pool) turns {
	t := turns{}
	for stream := range pools {
		t[stream] = make(chan struct{}, 1)
	}
	return t
}

// try takes the turn of a pool if nobody has it.
func (t turns) try(stream string) bool {
	select {
	case t[stream] <- struct{}{}:
		return true
	default:
		return false
	}
}

// wait takes the turn of a pool when it is free. It returns the context's cause if that ends first.
func (t turns) wait(ctx context.Context, stream string) error {
	select {
	case t[stream] <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t turns) leave(stream string) { <-t[stream] }
