package host

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// A Pool is one function with a process for each concurrent invocation, up to a limit. An
// invocation uses the idle process that was used last. If there is none, it starts a new one; at
// the limit it waits.
type Pool struct {
	bootstrap string
	options   PoolOptions
	slots     chan struct{}

	mu   sync.Mutex
	idle []*Instance
	all  []*Instance
}

// PoolOptions configure a pool. Zero fields take the defaults in their comments.
type PoolOptions struct {
	Options
	// Limit is the largest number of concurrent invocations. Defaults to 10.
	Limit int
	// Hang selects the invocations that hang, and after what time: then the process does nothing
	// until the timeout kills it. Defaults to none.
	Hang func() (after time.Duration, hangs bool)
	// Kill selects the invocations whose process is killed, and after what time. If the invocation
	// ends before that, the process is killed then, and the response is lost. Defaults to none.
	Kill func() (after time.Duration, kills bool)
}

// NewPool returns a pool of a bootstrap binary. It starts no process.
func NewPool(bootstrap string, o PoolOptions) *Pool {
	if o.Limit == 0 {
		o.Limit = 10
	}
	never := func() (time.Duration, bool) { return 0, false }
	if o.Hang == nil {
		o.Hang = never
	}
	if o.Kill == nil {
		o.Kill = never
	}
	return &Pool{bootstrap: bootstrap, options: o, slots: make(chan struct{}, o.Limit)}
}

// Start starts a process and waits until it can be invoked. See [Instance.Start].
func (p *Pool) Start(ctx context.Context) error {
	i, err := p.take(ctx)
	if err != nil {
		return err
	}
	defer p.give(i)
	return i.Start(ctx)
}

// Invoke invokes the function with an event and returns its response. See [Instance.Invoke].
func (p *Pool) Invoke(ctx context.Context, event []byte) ([]byte, error) {
	i, err := p.take(ctx)
	if err != nil {
		return nil, err
	}
	defer p.give(i)
	if after, hangs := p.options.Hang(); hangs {
		defer time.AfterFunc(after, i.freeze).Stop()
	}
	if after, kills := p.options.Kill(); kills {
		return i.invokeAndKill(ctx, event, after)
	}
	return i.Invoke(ctx, event)
}

// invokeAndKill invokes the function, and kills its process after a time, or at the end of the
// invocation.
func (i *Instance) invokeAndKill(ctx context.Context, event []byte, after time.Duration) ([]byte, error) {
	timer := time.AfterFunc(after, func() { i.Kill() })
	answer, err := i.Invoke(ctx, event)
	if timer.Stop() && i.Kill() {
		return nil, fmt.Errorf("invoke function %s: %w", i.options.Name, ErrExited)
	}
	return answer, err
}

func (p *Pool) take(ctx context.Context) (*Instance, error) {
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := len(p.idle) - 1; last >= 0 {
		i := p.idle[last]
		p.idle = p.idle[:last]
		return i, nil
	}
	i := New(p.bootstrap, p.options.Options)
	p.all = append(p.all, i)
	return i, nil
}

func (p *Pool) give(i *Instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, i)
	<-p.slots
}

// Kill kills a random process, in any state, and reports whether there was one. See
// [Instance.Kill].
func (p *Pool) Kill() bool {
	p.mu.Lock()
	all := append([]*Instance(nil), p.all...)
	p.mu.Unlock()
	rand.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] }) //nolint:gosec // chance is all that is asked for
	for _, i := range all {
		if i.Kill() {
			return true
		}
	}
	return false
}

// Close ends all processes, after the invocations in progress. The pool can't be used afterwards.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, i := range p.all {
		errs = append(errs, i.Close())
	}
	return errors.Join(errs...)
}
