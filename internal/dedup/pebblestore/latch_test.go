package pebblestore

import (
	"fmt"
	"sync"
	"testing"
)

func TestNoGroupGetsTheHeadOfAnotherInTheSameSlot(t *testing.T) {
	h := newHeads()
	other := []byte("b")
	for i := 0; h.slot(other) != h.slot([]byte("a")); i++ {
		other = fmt.Appendf(nil, "b%d", i)
	}
	h.remember([]byte("a"), head{version: 1})
	if got, known := h.recall([]byte("a")); !known || got.version != 1 {
		t.Errorf("its own: %+v, %v", got, known)
	}
	if got, known := h.recall(other); known {
		t.Errorf("another one's: %+v", got)
	}
	h.forget(other)
	if _, known := h.recall([]byte("a")); !known {
		t.Error("the head of a is forgotten with another one's")
	}
	h.forget([]byte("a"))
	if got, known := h.recall([]byte("a")); known {
		t.Errorf("a forgotten one: %+v", got)
	}
}

// Without a lock of its own for each key, the counters of the keys would race.
func TestALatchExcludesTheOthersOfItsKeyOnly(t *testing.T) {
	const keys, goroutines, turns = 5, 8, 200
	l := newLatches()
	key := func(i int) []byte { return fmt.Append(nil, i) }
	counters := make([]int, keys)
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			for n := range turns {
				a, b := (g+n)%keys, n%keys
				unlock := l.lockAll([][]byte{key(a), key(b)})
				counters[a]++
				counters[b]++
				unlock()
				held := l.lock(key(a))
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
	for i := range l.shards {
		if n := len(l.shards[i].used); n > 0 {
			t.Errorf("%d latches are in use, and nobody holds one", n)
		}
	}
	defer l.lock([]byte("held")).Unlock()
	for i := range 1000 { // of the 64 shards, each is used
		l.lock(key(i)).Unlock()
	}
}
