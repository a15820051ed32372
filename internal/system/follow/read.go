package follow

import (
	"context"
	"errors"
	"sync"

	"github.com/effectively-once/once/internal/dedup/log"
	"github.com/effectively-once/once/internal/record"
)

// A Source makes followers: a [*Hub] or a [Poller].
type Source interface {
	Follow(record.GroupKey) Follower
}

// Logs reads and follows the logs of a store.
type Logs struct {
	Source
	store log.Store

	mu      sync.Mutex
	running map[question]*reading // the last one that began
	next    map[question]*reading // begins when that one has ended
}

// A question names a page.
type question struct {
	group record.GroupKey
	after log.Offset
	limit int
}

// A reading is a read for one or more callers.
type reading struct {
	done chan struct{}
	page log.Page
	err  error
}

// NewLogs returns the logs of a store.
func NewLogs(store log.Store, source Source) *Logs {
	return &Logs{Source: source, store: store, running: map[question]*reading{}, next: map[question]*reading{}}
}

// Read calls [log.Read]. The callers must not change the page, because it may be shared: followers
// of a group wake together and ask for the same page. If each of them read it, they would compete
// with the next commit for the group record. So callers who come while such a read runs share the
// next one. A read never begins before the call, so it has all that was appended before.
func (l *Logs) Read(ctx context.Context, group record.GroupKey, after log.Offset, limit int) (log.Page, error) {
	q := question{group, after, limit}
	for {
		r, before, leads := l.join(q)
		if leads {
			if before != nil {
				<-before.done
				l.begin(q, r)
			}
			l.read(ctx, q, r)
			return r.page, r.err
		}
		select {
		case <-r.done:
		case <-ctx.Done():
			return log.Page{}, ctx.Err()
		}
		if ended := errors.Is(r.err, context.Canceled) || errors.Is(r.err, context.DeadlineExceeded); !ended || ctx.Err() != nil {
			return r.page, r.err
		}
		// The caller who read has gone: try again.
	}
}

// join returns the reading that a caller waits for, and whether the caller has to read itself,
// after the reading before it, if there is one.
func (l *Logs) join(q question) (r, before *reading, leads bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before = l.running[q]
	if before == nil {
		r = &reading{done: make(chan struct{})}
		l.running[q] = r
		return r, nil, true
	}
	if r = l.next[q]; r != nil {
		return r, nil, false
	}
	r = &reading{done: make(chan struct{})}
	l.next[q] = r
	return r, before, true
}

// begin makes the next reading the one that runs: nobody joins it any more.
func (l *Logs) begin(q question, r *reading) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.next, q)
	l.running[q] = r
}

func (l *Logs) read(ctx context.Context, q question, r *reading) {
	defer func() {
		l.mu.Lock()
		if l.running[q] == r {
			delete(l.running, q)
		}
		l.mu.Unlock()
		close(r.done)
	}()
	r.page, r.err = log.Read(ctx, l.store, q.group, q.after, q.limit)
}

// End calls [log.End].
func (l *Logs) End(ctx context.Context, group record.GroupKey) (log.Page, error) {
	return log.End(ctx, l.store, group)
}
