package direct

import "sync"

// An ending decides who cleans up after an attempt. Usually its caller does; if the caller has left
// before, the attempt does it at its end.
type ending struct {
	mu          sync.Mutex
	ended, left bool
}

// attempt records that the attempt has ended, and reports whether the caller has left.
func (e *ending) attempt() (left bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	return e.left
}

// caller records that the caller leaves, and reports whether the attempt has ended.
func (e *ending) caller() (ended bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.left = true
	return e.ended
}
