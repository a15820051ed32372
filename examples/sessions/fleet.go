package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/effectively-once/once/client"
)

// lease is how long a consumer of another name waits for one that does not answer.
const lease = time.Second

// patience is how long a consumer may take to do something. It only ends runs that hang.
const patience = 2 * time.Minute

// A reader is a session and the process that should hold it. One fault at a time is injected.
type reader struct {
	run  *run
	name string

	mu      sync.Mutex
	process *process
	starts  int
	retired bool
}

// begin starts a consumer process.
func (r *reader) begin(ctx context.Context, holder string, take client.Take) (*process, error) {
	p, err := start(ctx, append(append([]string{}, r.run.consumer...), r.run.server.url(), stream, r.name, holder, string(take), r.run.source)...)
	if err != nil {
		return nil, err
	}
	go r.watch(ctx, p)
	return p, nil
}

// watch ends the run if a consumer exits that was not killed, without having seen its end or
// another holder.
func (r *reader) watch(ctx context.Context, p *process) {
	<-p.exited
	if _, ok := p.printed(is(eventEnd, eventFenced)); !ok && !p.wasKilled() && ctx.Err() == nil {
		r.run.fail(fmt.Errorf("the consumer of %s has failed: %s", r.name, p.stderr.String()))
	}
}

// holder returns the name of the holder, which a restarted consumer keeps.
func (r *reader) holder() string { return fmt.Sprintf("%s-host-%d", r.name, r.starts) }

// start starts the first consumer.
func (r *reader) start(ctx context.Context) (err error) {
	r.process, err = r.begin(ctx, r.holder(), client.TakeFree)
	if err != nil {
		return err
	}
	return r.opened(ctx, r.process)
}

func (r *reader) opened(ctx context.Context, p *process) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the consumer of %s does not open its session", r.name))
	defer cancel()
	_, err := p.await(ctx, is(eventOpen))
	return err
}

// crash kills the consumer and starts it again with the same holder name. It returns how long the
// session had no consumer.
func (r *reader) crash(ctx context.Context) (took time.Duration, err error) {
	began := time.Now()
	r.process.kill()
	if r.process, err = r.begin(ctx, r.holder(), client.TakeMine); err != nil {
		return 0, err
	}
	err = r.opened(ctx, r.process)
	return time.Since(began), err
}

// replace starts another consumer of the session, and waits until it has taken it.
func (r *reader) replace(ctx context.Context, take client.Take) (old *process, err error) {
	r.starts++
	next, err := r.begin(ctx, r.holder(), take)
	if err != nil {
		return nil, err
	}
	old, r.process = r.process, next
	return old, r.opened(ctx, next)
}

// stall stops the consumer until another one has taken the session, which it may when the lease has
// expired, and then lets it go on. If the consumer was stopped while it was writing, its database
// makes the other one wait: then it goes on before.
func (r *reader) stall(ctx context.Context) (took time.Duration, err error) {
	began, stopped := time.Now(), r.process
	if err := stopped.stop(); err != nil {
		return 0, err
	}
	wake := time.AfterFunc(lease+2*time.Second, stopped.proceed)
	defer wake.Stop()
	old, err := r.replace(ctx, client.TakeFree)
	took = time.Since(began)
	stopped.proceed()
	if err != nil {
		return took, err
	}
	return took, r.fenced(ctx, old)
}

// rival starts a second consumer that takes the session from the first, which works on.
func (r *reader) rival(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	old, err := r.replace(ctx, client.TakeNow)
	if err != nil {
		return 0, err
	}
	return time.Since(began), r.fenced(ctx, old)
}

// fenced waits until a consumer has found out that another one has its session.
func (r *reader) fenced(ctx context.Context, p *process) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the replaced consumer of %s does not exit", r.name))
	defer cancel()
	_, err := p.await(ctx, is(eventFenced, eventEnd))
	return err
}
