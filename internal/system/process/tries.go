package process

import "sync"

// maxTracked is how many failing messages tries keeps. Beyond them, all counts start again: those
// messages get more tries.
const maxTracked = 100_000

// tries counts the deliveries of messages that this process has seen, by the queue's ids. A message
// whose tries are spread over several processes gets more tries, until [record.LastChance].
type tries struct {
	mu    sync.Mutex
	count map[string]tried
}

// A tried counts the deliveries of one message.
type tried struct {
	failed  int // its handler failed
	untried int // it was not run: an earlier message of its group failed, for example
}

// failed counts a failure and returns how many there were.
func (t *tries) failed(id string) int {
	return t.add(id, tried{failed: 1}).failed
}

// untried counts a delivery that did not run the message.
func (t *tries) untried(id string) { t.add(id, tried{untried: 1}) }

// own returns how many of a number of deliveries were tries of the message itself, at least one.
func (t *tries) own(id string, deliveries int) int {
	return max(deliveries-t.add(id, tried{}).untried, 1)
}

func (t *tries) add(id string, n tried) tried {
	t.mu.Lock()
	defer t.mu.Unlock()
	was, known := t.count[id]
	was.failed += n.failed
	was.untried += n.untried
	if was == (tried{}) {
		return was
	}
	if t.count == nil || !known && len(t.count) >= maxTracked {
		t.count = map[string]tried{}
	}
	t.count[id] = was
	return was
}

func (t *tries) forget(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.count, id)
}
