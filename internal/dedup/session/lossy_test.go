package session_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"

	"github.com/effectively-once/once/internal/dedup/session"
	"github.com/effectively-once/once/internal/record"
)

// A lossy store fails some of its commits: before they are applied, or after, or they are applied
// during a later call.
type lossy struct {
	session.Store
	mu   sync.Mutex
	rnd  *rand.Rand
	late []record.Commit
}

// lostOneIn is how many commits have one fault of each kind.
const lostOneIn = 40

func (l *lossy) Commit(ctx context.Context, c record.Commit) error {
	runtime.Gosched() // lets the other callers run
	fate := l.draw()
	l.arrive(ctx, 1)
	switch fate {
	case 0:
		return errBroken
	case 1:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.late = append(l.late, c)
		return errBroken
	}
	err := l.Store.Commit(ctx, c)
	if fate == 2 {
		return errBroken
	}
	return err
}

func (l *lossy) Load(ctx context.Context, groups []record.GroupKey, tokens []record.TokenKey) ([]record.Group, []record.Token, error) {
	gs, ts, err := l.Store.Load(ctx, groups, tokens)
	runtime.Gosched()
	return gs, ts, err
}

func (l *lossy) draw() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rnd.IntN(lostOneIn)
}

// arrive applies late commits, the oldest first, at most n.
func (l *lossy) arrive(ctx context.Context, n int) {
	l.mu.Lock()
	n = min(n, len(l.late))
	due := l.late[:n]
	l.late = l.late[n:]
	l.mu.Unlock()
	for _, c := range due {
		_ = l.Store.Commit(ctx, c) // nobody waits for the answer
	}
}
