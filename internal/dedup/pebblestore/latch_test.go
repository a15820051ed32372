package pebblestore

import (
	"sync"
	"testing"
)

func TestNoGroupGetsTheHeadOfAnotherInTheSameSlot(t *testing.T) {
	h := &heads{}
	a, other := place{key: []byte("a"), hash: 1}, place{key: []byte("b"), hash: 1 + uint64(len(h))}
	h.remember(a, head{version: 1})
	if got, known := h.recall(a); !known || got.version != 1 {
		t.Errorf("its own: %+v, %v", got, known)
	}
	if got, known := h.recall(other); known {
		t.Errorf("another one's: %+v", got)
	}
	h.forget(other)
	if _, known := h.recall(a); !known {
		t.Error("the head of a is forgotten with another one's")
	}
	h.forget(a)
	if got, known := h.recall(a); known {
		t.Errorf("a forgotten one: %+v", got)
	}
}

// Without a lock of its own for each key, the counters of the keys would race.
func TestALatchExcludesTheOthersOfItsKeyOnly(t *testing.T) {
	const keys, goroutines, turns = 5, 8, 200
	l := &latches{}
	at := func(i int) place { return place{hash: uint64(i*buckets + i%2)} }
	counters := make([]int, keys)
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for n := range turns {
				a, b := (g+n)%keys, n%keys
				both := l.lockAll([]place{at(a), at(b)})
				counters[a]++
				counters[b]++
				both.Unlock()
				held := l.lock(at(a))
				counters[a]--
				held.Unlock()
			}
		})
	}
	all.Wait()
	sum := 0
	for _, n := range counters {
		sum += n
	}
	if sum != goroutines*turns {
		t.Errorf("%d of %d counts", sum, goroutines*turns)
	}
	for i := range l {
		if n := len(l[i].used); n > 0 {
			t.Errorf("%d latches are in use, and nobody holds one", n)
		}
	}
	defer l.lock(place{hash: 7}).Unlock()
	for i := range 3 { // others of the same bucket
		l.lock(place{hash: 7 + uint64(i+1)*buckets}).Unlock()
	}
}
