//go:build crashpoints

package embedded

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/effectively-once/once/internal/delay"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/record"
)

// crashPoints are the boundaries of the protocol's steps. ONCE_CRASH_AT=point:n kills the process
// when it passes the point for the n-th time.
var crashPoints = []string{
	"before-issue", "after-issue", "before-enqueue", "after-enqueue", "before-load", "after-load", "before-commit", "after-commit",
	"before-mark-done", "after-mark-done", "before-trigger", "after-trigger", "before-send", "after-send", "before-clear", "after-clear",
	"before-acknowledge", "after-acknowledge", "before-move", "after-move", "before-sync", "after-sync",
}

var (
	crashAt     string
	crashNumber int64
	passed      atomic.Int64
)

func init() {
	at := os.Getenv("ONCE_CRASH_AT")
	if at == "list" {
		fmt.Println(strings.Join(crashPoints, "\n"))
		os.Exit(0)
	}
	point, number, _ := strings.Cut(at, ":")
	crashAt = point
	crashNumber, _ = strconv.ParseInt(number, 10, 64)
}

// crash kills the process, as kill -9 does, if it is at the point.
func crash(point string) {
	if point == crashAt && passed.Add(1) == max(crashNumber, 1) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal may take a moment; nothing more is to happen
	}
}

type crashingStore struct{ store }

func crashing(s store) store { return crashingStore{s} }

// CommitsDone implements record.DoneCommitter.
func (s crashingStore) CommitsDone() bool { return record.CommitsDone(s.store) }

func (s crashingStore) Load(ctx context.Context, g []record.GroupKey, t []record.TokenKey) ([]record.Group, []record.Token, error) {
	crash("before-load")
	defer crash("after-load")
	return s.store.Load(ctx, g, t)
}

func (s crashingStore) Commit(ctx context.Context, c record.Commit) error {
	crash("before-commit")
	defer crash("after-commit")
	return s.store.Commit(ctx, c)
}

// CommitsTogether implements record.GroupsCommitter.
func (s crashingStore) CommitsTogether() bool { return record.CommitsTogether(s.store) }

// CommitAll implements record.GroupsCommitter.
func (s crashingStore) CommitAll(ctx context.Context, commits []record.Commit) []error {
	crash("before-commit")
	defer crash("after-commit")
	return record.CommitAll(ctx, s.store, commits)
}

func (s crashingStore) Clear(ctx context.Context, c record.Clear) error {
	crash("before-clear")
	defer crash("after-clear")
	return s.store.Clear(ctx, c)
}

func (s crashingStore) SwapToken(ctx context.Context, old, next record.Token) (record.Token, error) {
	crash("before-issue")
	defer crash("after-issue")
	return s.store.SwapToken(ctx, old, next)
}

// SwapTokens implements record.TokenSwapper.
func (s crashingStore) SwapTokens(ctx context.Context, swaps []record.Swap) []record.Swapped {
	crash("before-issue")
	defer crash("after-issue")
	return record.SwapTokens(ctx, s.store, swaps)
}

func (s crashingStore) MarkDone(ctx context.Context, tokens []record.Token) error {
	crash("before-mark-done")
	defer crash("after-mark-done")
	return s.store.MarkDone(ctx, tokens)
}

// A crossed queue has a crash point before and after each send.
type crossed struct {
	queue.Queue
	point string
}

func crossing(point string, q queue.Queue) queue.Queue { return crossed{q, point} }

// AllOrNone implements the interface of [queue.AllOrNone].
func (q crossed) AllOrNone() bool { return queue.AllOrNone(q.Queue) }

func (q crossed) Send(ctx context.Context, messages []queue.Message) []queue.SendResult {
	crash("before-" + q.point)
	defer crash("after-" + q.point)
	return q.Queue.Send(ctx, messages)
}

// A crossedDelays has a crash point before and after each item that is put.
type crossedDelays struct {
	delay.Store
	point string
}

func crossingDelays(point string, s delay.Store) delay.Store { return crossedDelays{s, point} }

func (s crossedDelays) Put(ctx context.Context, items []delay.Item) error {
	crash("before-" + s.point)
	defer crash("after-" + s.point)
	return s.Store.Put(ctx, items)
}

type crashingSender struct{ record.Sender }

func (s crashingSender) Send(ctx context.Context, deliveries []record.Delivery) []error {
	crash("before-send")
	defer crash("after-send")
	return s.Sender.Send(ctx, deliveries)
}
