package e2e

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// A killer kills a server at random moments of its work and restarts it on the same data. The
// moments are counted in acknowledged messages, so that they spread over the whole load on fast and
// on slow machines.
type killer struct {
	server  *server
	random  *rand.Rand
	moments []int64 // in acknowledged messages
	passed  atomic.Int64
	due     chan struct{}
	done    chan error
	killed  int
}

// newKiller starts a killer for a load of this many acknowledgements. The context ends if the
// server can't be restarted.
func newKiller(t *testing.T, s *server, random *rand.Rand, times, load int) (context.Context, *killer) {
	t.Helper()
	ctx, fail := context.WithCancelCause(t.Context())
	k := &killer{
		server: s, random: rand.New(rand.NewPCG(random.Uint64(), 0)), moments: moments(random, times, load),
		due: make(chan struct{}, times), done: make(chan error, 1),
	}
	go func() {
		err := k.run(ctx)
		if err != nil {
			fail(err)
		}
		k.done <- err
	}()
	return ctx, k
}

// moments returns random positions in a load, sorted; some may be equal.
func moments(random *rand.Rand, times, load int) []int64 {
	list := make([]int64, times)
	for i := range list {
		list[i] = 1 + random.Int64N(int64(load))
	}
	slices.Sort(list)
	return list
}

// acknowledged is called by clients after every acknowledgement.
func (k *killer) acknowledged() {
	n := k.passed.Add(1)
	first, _ := slices.BinarySearch(k.moments, n)
	for ; first < len(k.moments) && k.moments[first] == n; first++ {
		k.due <- struct{}{}
	}
}

func (k *killer) run(ctx context.Context) error {
	for range k.due {
		if err := k.strike(ctx, 30*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// strike kills the server within a time from now and restarts it; sometimes it is killed once more
// before it is ready.
func (k *killer) strike(ctx context.Context, within time.Duration) error {
	if err := errors.Join(sleep(ctx, time.Duration(k.random.Int64N(int64(within)))), k.server.kill()); err != nil {
		return err
	}
	k.killed++
	if k.random.IntN(4) == 0 {
		if _, err := k.server.launch(); err != nil {
			return err
		}
		if err := errors.Join(sleep(ctx, time.Duration(k.random.Int64N(int64(100*time.Millisecond)))), k.server.kill()); err != nil {
			return err
		}
		k.killed++
	}
	return k.server.start()
}

// finish waits for the kills that are due, and kills a few times more while the server processes
// its backlog.
func (k *killer) finish(t *testing.T) {
	t.Helper()
	close(k.due)
	must(t, <-k.done)
	for range 5 {
		st, err := k.server.stats()
		must(t, err)
		if st.Idle {
			break
		}
		must(t, k.strike(t.Context(), 300*time.Millisecond))
	}
	t.Logf("killed %d times", k.killed)
	if k.killed < len(k.moments) {
		must(t, errors.New("killed too few times"))
	}
}
