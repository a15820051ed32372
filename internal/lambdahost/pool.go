package lambdahost

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// A Pool is one function with as many processes as it has invocations at once, up to a limit. An invocation gets a process that is idle, the one that was used last, before a
// new one is started; beyond the limit it waits for one.
type Pool struct {
	bootstrap string
	options   PoolOptions
	slots     chan struct{}

	mu   sync.Mutex
	idle []*Instance
	all  []*Instance
}

// PoolOptions say how a pool works. Zero fields take the defaults in their comments.
type PoolOptions struct {
	Options
	// Limit is how many invocations there are at once. Defaults to 10.
	Limit int
	// Hang chooses the invocations that hang, and how long after their beginning: the process does nothing any more until the timeout ends it. Defaults to none.
	Hang func() (after time.Duration, hangs bool)
}

// NewPool makes a pool of a bootstrap binary. It starts no process.
func NewPool(bootstrap string, o PoolOptions) *Pool {
	if o.Limit == 0 {
		o.Limit = 10
	}
	if o.Hang == nil {
		o.Hang = func() (time.Duration, bool) { return 0, false }
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

// Invoke hands an event to the function and gives its answer. See [Instance.Invoke].
func (p *Pool) Invoke(ctx context.Context, event []byte) ([]byte, error) {
	i, err := p.take(ctx)
	if err != nil {
		return nil, err
	}
	defer p.give(i)
	if after, hangs := p.options.Hang(); hangs {
		defer time.AfterFunc(after, i.freeze).Stop()
	}
	return i.Invoke(ctx, event)
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

// Kill ends one of the processes, by chance, whatever it is doing, and tells whether there was one. See [Instance.Kill].
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

// Close ends all processes, after the invocations that are under way. Nothing may be invoked any more.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, i := range p.all {
		errs = append(errs, i.Close())
	}
	return errors.Join(errs...)
}
