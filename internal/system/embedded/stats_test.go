package embedded_test

import (
	"context"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system"
)

// A handler blocks the first message of a group, so that the second one waits behind it.
func TestStatsCountMessagesInFlight(t *testing.T) {
	t.Parallel()
	running, release := make(chan struct{}, 1), make(chan struct{})
	p := &place{t: t, dir: t.TempDir(), config: "streams: {orders: {direct: false}}\n"}
	r := p.start(system.Stream{Stream: record.Stream{Name: "orders", Handler: func(ctx context.Context, _ *record.Attempt, _ record.Message) error {
		running <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return ctx.Err()
	}}})
	defer r.stop()
	defer close(release)
	r.send(t, client.Message{Stream: "orders", Key: "1", Group: "g"})
	select {
	case <-running:
	case <-time.After(time.Minute):
		t.Fatal("the handler does not run")
	}
	stats, err := r.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all admin.QueueStats
	for _, q := range stats.Queues {
		all.Visible, all.InFlight, all.Delayed = all.Visible+q.Visible, all.InFlight+q.InFlight, all.Delayed+q.Delayed
	}
	if all.InFlight != 1 || all.Visible != 0 || all.Delayed != 0 || stats.Idle {
		t.Errorf("%+v, idle %v", stats.Queues, stats.Idle)
	}
}
