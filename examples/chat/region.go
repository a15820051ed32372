package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/embedded"
	"github.com/effectively-once/once/examples/chat/room"
	"github.com/effectively-once/once/internal/admin"
)

// sampled is how often the buffers of a region are looked at.
const sampled = 50 * time.Millisecond

// A region is a running system, and the screen of a person who reads there.
type region struct {
	name   string
	client *client.Client

	mu    sync.Mutex
	view  *room.View
	rows  []event       // every line at the place that it got
	more  chan struct{} // closed when a row is added, and then replaced
	world *world
}

// An event is a row of the screen, and the row above it when it was added.
type event struct {
	room.Shown
	above string
}

// configuration returns the once.yaml of a region. It reaches the others through the network.
func configuration(name string, peers []string, network string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "name: %s\nstreams:\n  %s: {admission: sequence, log: {retain: 7d}, destinations: [%s]}\ndestinations:\n", name, room.Stream, strings.Join(peers, ", "))
	for _, peer := range peers {
		fmt.Fprintf(&b, "  %s: {once: \"http://%s/%s/%s\", stream: %s, relay: false, retry: {first: 100ms, max: 1s}}\n", peer, network, name, peer, room.Stream)
	}
	return b.String()
}

func peersOf(name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}

// run serves the system of a region until the context ends. ready is called with its address.
func (r *region) run(ctx context.Context, data, network string, ready func(address string)) (err error) {
	sys, err := embedded.Open(filepath.Join(data, r.name), embedded.Options{
		Config: configuration(r.name, peersOf(r.name), network), Listen: "127.0.0.1:0", Ready: ready,
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sys.Close()) }()
	handler := room.Region{Name: r.name, Peers: peersOf(r.name), Now: time.Now}
	once.Handle(sys, room.Stream, handler.Handle)
	return sys.Run(ctx)
}

// watch samples what the region keeps, as "once show room/lobby" prints it, until the context ends.
func (r *region) watch(ctx context.Context, data string) error {
	c, err := admin.Dial(ctx, admin.Socket(filepath.Join(data, r.name)))
	switch {
	case ctx.Err() != nil:
		return nil // the program ends
	case err != nil:
		return err
	}
	defer func() { _ = c.Close() }()
	for tick := time.NewTicker(sampled); ; {
		if g, err := c.Group(ctx, room.Stream, room.Group); err == nil {
			r.world.stats.buffered(g.Held, len(g.Pending))
		} // otherwise there is no line yet, or the system ends
		select {
		case <-ctx.Done():
			tick.Stop()
			return nil
		case <-tick.C:
		}
	}
}

// read shows the log until the context ends.
func (r *region) read(ctx context.Context) error {
	tail := r.client.Tail(room.Stream, room.Group, client.TailOptions{})
	for {
		e, err := tail.Next(ctx)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if err != nil {
			return nil //nolint:nilerr // the program ends
		}
		h, err := room.Hear(e)
		if err != nil {
			return err
		}
		r.show(h)
	}
}

// show adds a line to the screen, and tells those who look at it.
func (r *region) show(h room.Heard) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.view.Add(h)
	above := ""
	for _, row := range r.view.Lines() {
		if row.ID == h.ID {
			r.rows = append(r.rows, event{row, above})
			break
		}
		above = row.ID
	}
	close(r.more)
	r.more = make(chan struct{})
	r.world.shown(r.name, h)
}

// after returns the rows from n on, and a channel that is closed when there are more.
func (r *region) after(n int) ([]event, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.rows[min(n, len(r.rows)):]), r.more
}

func (r *region) find(id string) (room.Heard, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view.Find(id)
}
