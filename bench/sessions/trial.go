package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/effectively-once/once/bench/child"
)

// A fault is a kind of failure.
type fault string

const (
	killed  fault = "kill"
	stopped fault = "stop"
	crashed fault = "server"
)

func faults() []fault { return []fault{killed, stopped, crashed} }

func (f fault) describe() string {
	return map[fault]string{
		killed: "SIGKILL of a consumer", stopped: "SIGSTOP of a consumer, for longer than its lease", crashed: "SIGKILL of the server",
	}[f]
}

// A result counts the rows of a trial. Without faults the peer can't have them.
type result struct {
	Peer                            string
	Fault                           fault
	Faults, Messages, Lost, Doubled int
}

func (r result) cell() string {
	if r.Faults == 0 {
		return "–"
	}
	per := func(n int) string { return strconv.Itoa((n*100 + r.Faults/2) / r.Faults) }
	return per(r.Lost) + " / " + per(r.Doubled)
}

// A trial is a peer under one kind of fault.
type trial struct {
	place
	peer   peer
	fault  fault
	db     *sql.DB
	slots  [consumers]slot
	sent   int
	failed context.CancelCauseFunc
}

// A slot has one consumer at a time, and one that it replaces.
type slot struct {
	mu      sync.Mutex
	process *child.Process
	starts  int
}

// try runs a trial.
func try(ctx context.Context, self, name string, f fault, n int) (r result, err error) {
	dir, err := os.MkdirTemp("", "sessions-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := &trial{place: place{self: self, dir: dir, name: filepath.Base(dir)}, peer: newPeer(name), fault: f, failed: cancel}
	r = result{Peer: name, Fault: f}
	defer t.peer.close()
	if err := t.peer.open(ctx, t.place); err != nil {
		return r, fmt.Errorf("%s: %w", name, err)
	}
	if t.db, err = t.peer.rows(); err != nil {
		return r, err
	}
	defer func() { _ = t.db.Close() }()
	if r.Faults, err = t.play(ctx, n); err == nil {
		r.Messages = t.sent
		r.Lost, r.Doubled, err = t.judge(ctx)
	}
	if err != nil {
		return r, fmt.Errorf("%s, %s: %w", name, f, errors.Join(err, context.Cause(ctx)))
	}
	return r, nil
}

// play sends messages and injects faults. It returns how many there were.
func (t *trial) play(ctx context.Context, n int) (int, error) {
	for i := range t.slots {
		if err := t.begin(ctx, i, false); err != nil {
			return 0, err
		}
	}
	sending, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := t.feed(ctx, sending); err != nil {
			t.failed(err)
		}
	})
	done, err := t.inject(ctx, n)
	stop()
	running.Wait()
	return done, errors.Join(err, ctx.Err())
}

// begin starts the consumer of a place.
func (t *trial) begin(ctx context.Context, i int, restarted bool) (err error) {
	command := append([]string{t.self}, t.peer.command(i, t.slots[i].starts, restarted)...)
	t.slots[i].process, err = child.Start(ctx, command...)
	return err
}

// feed sends messages as fast as they are processed, until the faults are over.
func (t *trial) feed(ctx, sending context.Context) error {
	for sending.Err() == nil {
		rows := 0
		err := t.db.QueryRowContext(ctx, "SELECT count(*) FROM rows").Scan(&rows)
		if err == nil && t.sent-rows < 600 {
			var some []string
			for range 200 {
				some = append(some, t.name+"-"+strconv.Itoa(t.sent))
				t.sent++
			}
			if err := t.peer.send(ctx, some); err != nil {
				return err
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}

// inject injects the faults: one at a time of the server, and of consumers several.
func (t *trial) inject(ctx context.Context, n int) (done int, err error) {
	var running sync.WaitGroup
	defer running.Wait()
	limit := make(chan struct{}, consumers-1)
	for i := range n {
		select {
		case <-time.After(20*time.Millisecond + rand.N(60*time.Millisecond)): //nolint:gosec // chance is all that is asked for
		case <-ctx.Done():
			return done, context.Cause(ctx)
		}
		if t.fault == crashed {
			if ok, err := t.peer.crash(ctx); !ok || err != nil {
				return done, err
			}
			done++
			continue
		}
		limit <- struct{}{}
		running.Go(func() {
			defer func() { <-limit }()
			if err := t.strike(ctx, i%consumers); err != nil {
				t.failed(err)
			}
		})
		done++
	}
	return done, nil
}

// strike kills or stops the consumer of a place.
func (t *trial) strike(ctx context.Context, i int) error {
	s := &t.slots[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.fault == killed {
		s.process.Kill()
		return t.begin(ctx, i, true)
	}
	old := s.process
	if err := old.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	wake := time.AfterFunc(lease+time.Second, func() { _ = old.Signal(syscall.SIGCONT) })
	defer wake.Stop()
	s.starts++
	if err := t.begin(ctx, i, false); err != nil {
		return err
	}
	time.Sleep(lease + time.Second) // the timer has fired, or fires now
	_ = old.Signal(syscall.SIGCONT)
	time.Sleep(200 * time.Millisecond) // the old one goes on with its batch
	old.Finish()
	return nil
}

// judge waits until all messages are processed, and nothing has changed for twice the lease, and
// counts. A message without a row is lost if none comes for half a minute.
func (t *trial) judge(ctx context.Context) (lost, doubled int, err error) {
	last, since := -1, time.Now()
	for {
		rows, ids, err := count(ctx, t.db)
		if err != nil {
			return 0, 0, err
		}
		if rows != last {
			last, since = rows, time.Now()
		}
		if calm := time.Since(since); ids == t.sent && calm > 2*lease || calm > 30*time.Second {
			return t.sent - ids, rows - ids, nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return 0, 0, context.Cause(ctx)
		}
	}
}
