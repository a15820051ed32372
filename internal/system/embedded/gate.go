package embedded

import "sync"

// A gate lets requests in until it is closed. The HTTP API may be served by a listener that goes on
// after the system has ended: later requests must not reach a database that is closed.
type gate struct {
	mu     sync.Mutex
	closed bool
	inside sync.WaitGroup
}

// enter reports whether a request may be served. Then leave has to be called at its end.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.inside.Add(1)
	return true
}

func (g *gate) leave() { g.inside.Done() }

// close lets no further request in, and waits for the end of those that are inside.
func (g *gate) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.inside.Wait()
}
