package batch

import (
	"context"
	"errors"
	"slices"

	"github.com/effectively-once/once/internal/backoff"
	"github.com/effectively-once/once/internal/record"
)

// A turn is one delivery of a Send.
type turn[E any] struct {
	entry   E
	size    int
	group   record.GroupKey
	grouped bool // the order of its group must be kept
	tries   int
	settled bool
	err     error
}

// A run is one Send.
type run[E any] struct {
	*Service[E]
	turns  []turn[E]
	failed map[record.GroupKey]int // the first delivery of the group that failed for good
}

func (s *Service[E]) newRun(deliveries []record.Delivery) *run[E] {
	r := &run[E]{Service: s, turns: make([]turn[E], len(deliveries)), failed: map[record.GroupKey]int{}}
	for i := range deliveries {
		d, t := &deliveries[i], &r.turns[i]
		t.group, t.grouped = record.GroupKey{Stream: d.Stream, Group: d.Group}, d.Number > 0
		t.entry, t.size, t.err = s.Entry(d)
	}
	return r
}

// next returns the deliveries of the next request, in order.
func (r *run[E]) next() []int {
	var indexes []int
	size := 0
	busy := map[record.GroupKey]bool{}
	for i := range r.turns {
		t := &r.turns[i]
		if !r.open(i) || busy[t.group] && t.grouped {
			continue
		}
		full := len(indexes) > 0 && size+t.size > r.Bytes
		if len(indexes) == maxEntries || full && !r.Ordered {
			break
		}
		busy[t.group] = busy[t.group] || r.Ordered && t.grouped
		if full { // a smaller one of another group may fit
			continue
		}
		indexes, size = append(indexes, i), size+t.size
	}
	return indexes
}

// open reports whether a delivery is still to be sent. It settles a delivery that follows a failed
// one of its group.
func (r *run[E]) open(i int) bool {
	t := &r.turns[i]
	first, stopped := r.failed[t.group]
	switch {
	case t.settled:
	case t.grouped && stopped && first < i:
		r.settle(i, ErrBehind)
	case t.err != nil:
		r.settle(i, t.err)
	}
	return !t.settled
}

// wait pauses if an entry has been tried before.
func (r *run[E]) wait(ctx context.Context, indexes []int) error {
	tries := 0
	for _, i := range indexes {
		tries = max(tries, r.turns[i].tries)
	}
	if tries == 0 {
		return context.Cause(ctx)
	}
	if r.Pause != nil {
		return r.Pause(ctx, tries+1)
	}
	return backoff.Sleep(ctx, backoff.Full(tries, firstPause, maxPause))
}

// put sends one request, or halves of it.
func (r *run[E]) put(ctx context.Context, indexes []int) {
	if len(indexes) == 0 {
		return
	}
	entries := make([]E, len(indexes))
	for k, i := range indexes {
		entries[k] = r.turns[i].entry
	}
	errs, err := r.Put(ctx, entries)
	contents, bad := errors.AsType[*Contents](err)
	switch {
	case bad && len(indexes) > 1:
		half := len(indexes) / 2
		r.put(ctx, indexes[:half])
		r.put(ctx, slices.DeleteFunc(slices.Clone(indexes[half:]), func(i int) bool { return !r.open(i) }))
	case bad:
		r.settle(indexes[0], contents.Err)
	case err != nil:
		r.stop(err)
	default:
		r.note(indexes, errs)
	}
}

// note records the result of each entry.
func (r *run[E]) note(indexes []int, errs []error) {
	for k, i := range indexes {
		t := &r.turns[i]
		err := ErrNoResult
		if k < len(errs) {
			err = errs[k]
		}
		t.tries++
		if repeat, ok := errors.AsType[*again](err); ok {
			if err = repeat.error; t.tries < maxTries {
				continue
			}
		}
		r.settle(i, err)
	}
}

// settle ends a delivery. One that failed for good stops its group; a refused one does not.
func (r *run[E]) settle(i int, err error) {
	t := &r.turns[i]
	t.settled, t.err = true, err
	if _, refused := errors.AsType[*record.RefusedError](err); err == nil || refused || !t.grouped {
		return
	}
	if first, stopped := r.failed[t.group]; !stopped || i < first {
		r.failed[t.group] = i
	}
}

// stop ends all open deliveries.
func (r *run[E]) stop(err error) {
	for i := range r.turns {
		if !r.turns[i].settled {
			r.settle(i, err)
		}
	}
}

func (r *run[E]) results() []error {
	errs := make([]error, len(r.turns))
	for i := range r.turns {
		if err := r.turns[i].err; err != nil {
			errs[i] = r.wrap(err)
		}
	}
	return errs
}
