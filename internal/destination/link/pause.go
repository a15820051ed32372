package link

import (
	"fmt"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/record"
)

const (
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
	// maxAsked is the longest pause that the other system may ask for.
	maxAsked = time.Minute
)

// A pause keeps requests from a system that does not answer, so that a publisher does not wait
// for it while it has effects for other destinations. The pauses double, and the first answer
// ends them.
type pause struct {
	now func() time.Time

	mu    sync.Mutex
	last  time.Duration
	until time.Time
}

var errPause = fmt.Errorf("%w: the other system does not answer; the next request is sent after a pause", record.ErrUntried)

// lasts returns an error during a pause.
func (p *pause) lasts() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last > 0 && p.now().Before(p.until) {
		return errPause
	}
	return nil
}

// admit returns an error during a pause. After it, one request is admitted, and the others when
// that one has ended, or after the next pause.
func (p *pause) admit() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	switch {
	case p.last == 0:
		return nil
	case now.Before(p.until):
		return errPause
	}
	p.until = now.Add(p.last)
	return nil
}

// begin begins a pause, at least as long as the other system asked for.
func (p *pause) begin(asked time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = min(max(2*p.last, firstPause), maxPause)
	p.until = p.now().Add(max(p.last, min(asked, maxAsked)))
}

// end ends the pauses.
func (p *pause) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = 0
}
