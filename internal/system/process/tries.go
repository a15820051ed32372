package process

import "sync"

// maxTracked is how many failing messages tries keeps. Beyond them, all counts start again: those
// messages get more tries.
const maxTracked = 100_000

// tries counts the failures of messages that this process has seen, by the queue's ids. A message
// whose tries are spread over several processes gets more tries, until [record.LastChance].
type tries struct {
	mu    sync.Mutex
	count map[string]int
}

// failed counts a failure and returns how many there were.
func (t *tries) failed(id string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.count[id]; t.count == nil || !known && len(t.count) >= maxTracked {
		t.count = map[string]int{}
	}
	t.count[id]++
	return t.count[id]
}

func (t *tries) forget(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.count, id)
}
