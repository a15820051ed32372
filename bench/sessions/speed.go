package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/effectively-once/once/bench/child"
	"github.com/effectively-once/once/bench/table"
	"github.com/effectively-once/once/client"
)

const (
	entrySize = 100
	page      = 1000
	fast      = "fast" // the stream of numbered messages
)

// speed measures how fast entries are read and committed and messages enter a pool, beside
// JetStream in the same run, and how long a takeover takes.
func speed(ctx context.Context, args []string) error {
	entries, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sessions-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	s := &stopwatch{place: place{self: self, dir: dir}, entries: entries}
	for _, measure := range []func(context.Context) error{s.sessions, s.natsDefault, s.natsAlways, s.takeovers} {
		if err := measure(ctx); err != nil {
			return err
		}
	}
	return s.report()
}

// A stopwatch measures, and keeps the lines of its report.
type stopwatch struct {
	place
	entries int
	lines   [][]string
	through float64 // messages a second from the sender to the commit
}

func (s *stopwatch) rate(what string, n int, began time.Time) float64 {
	r := float64(n) / time.Since(began).Seconds()
	s.lines = append(s.lines, []string{what, table.Digits(r) + "/s"})
	return r
}

func (s *stopwatch) report() error {
	t := table.Table{Head: []string{"what", "figure"}, Rows: s.lines}
	return t.Write(os.Stdout)
}

// sessions measures a server of once.
func (s *stopwatch) sessions(ctx context.Context) error {
	server, err := child.Start(ctx, s.self, "serve", filepath.Join(s.dir, "once"), "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer server.Kill()
	url := "http://" + server.Line
	c, err := newClient(url)
	if err != nil {
		return err
	}
	began := time.Now()
	readers := make(chan error, 2)
	counted := &counter{done: make(chan struct{}), want: s.entries}
	for i := range 2 {
		go func() { readers <- follow(ctx, c, "reader-"+strconv.Itoa(i), counted) }()
	}
	if err := fill(ctx, c, 0, s.entries); err != nil {
		return err
	}
	s.rate("into the pool, batches of 1,000, while two sessions read and commit", s.entries, began)
	select {
	case <-counted.done:
		s.through = s.rate("the same, to the last commit", s.entries, began)
	case err := <-readers:
		return err
	}
	return s.readBack(ctx, url)
}

// A counter waits for a number of committed entries.
type counter struct {
	mu   sync.Mutex
	n    int
	want int
	done chan struct{}
}

func (c *counter) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n += n; c.n == c.want {
		close(c.done)
	}
}

// fill sends numbered messages of two sources, from two senders.
func fill(ctx context.Context, c *client.Client, from, to int) error {
	const senders = 2
	errs := make(chan error, senders)
	body := bytes.Repeat([]byte("x"), entrySize)
	for i := range senders {
		go func() {
			var batch []client.Message
			for n := from / senders; n < to/senders; n++ {
				batch = append(batch, client.Message{Stream: fast, Source: "source-" + strconv.Itoa(i), Sequence: uint64(n) + 1, Body: body}) //nolint:gosec // not negative
				if len(batch) < page && n+1 < to/senders {
					continue
				}
				for _, r := range c.SendBatch(ctx, batch) {
					if r.Err != nil {
						errs <- r.Err
						return
					}
				}
				batch = batch[:0]
			}
			errs <- nil
		}()
	}
	return errors.Join(<-errs, <-errs)
}

// follow reads and commits until the context ends.
func follow(ctx context.Context, c *client.Client, name string, counted *counter) error {
	s, err := c.OpenSession(ctx, client.SessionOptions{Stream: fast, Name: name, Max: page})
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		b, err := s.Next(ctx)
		if err == nil {
			err = s.Commit(ctx, b.To, client.CommitOptions{})
		}
		if err != nil {
			return err
		}
		counted.add(len(b.Entries))
	}
}

func (s *stopwatch) natsDefault(ctx context.Context) error {
	return s.nats(ctx, s.entries/4, "default sync")
}

func (s *stopwatch) natsAlways(ctx context.Context) error {
	return s.nats(ctx, s.entries/100, "sync: always", "always")
}

// nats measures from publishing to the double acknowledgement, with many of both in flight.
func (s *stopwatch) nats(ctx context.Context, n int, name string, always ...string) error {
	server, err := child.Start(ctx, append([]string{s.self, "nats", filepath.Join(s.dir, name), "0"}, always...)...)
	if err != nil {
		return err
	}
	defer server.Kill()
	conn, js, err := dialNATS(server.Line)
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "work", Subjects: []string{"work"}, Storage: jetstream.FileStorage})
	if err != nil {
		return err
	}
	c, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 10_000})
	if err != nil {
		return err
	}
	began := time.Now()
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return publishAll(ctx, js, n) })
	both.Go(func() error { return acknowledgeAll(ctx, c, n) })
	if err := both.Wait(); err != nil {
		return err
	}
	r := s.rate("JetStream, "+name+", published to double-acknowledged", n, began)
	s.lines = append(s.lines, []string{"`once` beside it", table.Digits(s.through/r) + " ×"})
	return nil
}

func publishAll(ctx context.Context, js jetstream.JetStream, n int) error {
	body := bytes.Repeat([]byte("x"), entrySize)
	for range n {
		if _, err := js.PublishAsync("work", body, jetstream.WithStallWait(time.Minute)); err != nil {
			return err
		}
	}
	select {
	case <-js.PublishAsyncComplete():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// acknowledgeAll acknowledges messages, 256 at a time, and waits for each confirmation.
func acknowledgeAll(ctx context.Context, c jetstream.Consumer, n int) error {
	var running sync.WaitGroup
	var mu sync.Mutex
	var failed error
	limit := make(chan struct{}, 256)
	for n > 0 && ctx.Err() == nil {
		messages, err := c.Fetch(min(n, page), jetstream.FetchMaxWait(10*time.Second))
		if err != nil {
			return err
		}
		for m := range messages.Messages() {
			n--
			limit <- struct{}{}
			running.Go(func() {
				defer func() { <-limit }()
				if err := m.DoubleAck(ctx); err != nil {
					mu.Lock()
					defer mu.Unlock()
					failed = errors.Join(failed, err)
				}
			})
		}
	}
	running.Wait()
	return failed
}

// takeovers measures from the SIGKILL of a holder to the open of the next one.
func (s *stopwatch) takeovers(ctx context.Context) error {
	server, err := child.Start(ctx, s.self, "serve", filepath.Join(s.dir, "takeovers"), "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer server.Kill()
	for holder, take := range map[string]client.Take{"first": client.TakeMine, "second": client.TakeFree} {
		var all []float64
		for range 11 {
			took, err := s.takeover(ctx, "http://"+server.Line, holder, take)
			if err != nil {
				return err
			}
			all = append(all, float64(took.Microseconds())/1000)
		}
		s.lines = append(s.lines, []string{"takeover by holder " + holder + " after SIGKILL of first, lease 1 s", fmt.Sprintf("median %.1f ms, longest %.1f ms", table.Median(all), slices.Max(all))})
	}
	return nil
}

func (s *stopwatch) takeover(ctx context.Context, url, holder string, take client.Take) (time.Duration, error) {
	first, err := child.Start(ctx, s.self, "hold", url)
	if err != nil {
		return 0, err
	}
	c, err := newClient(url)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	first.Kill()
	for {
		next, err := c.OpenSession(ctx, client.SessionOptions{Stream: fast, Name: "taken", Holder: holder, Take: take, Lease: time.Second})
		if err == nil {
			took := time.Since(began)
			return took, next.Release(ctx)
		}
		p, held := errors.AsType[*client.Problem](err)
		if !held || p.Type != client.Held {
			return 0, err
		}
		time.Sleep(min(p.RetryAfter, 10*time.Millisecond))
	}
}

// hold holds a session until it is killed.
func hold(ctx context.Context, args []string) error {
	c, err := newClient(args[0])
	if err != nil {
		return err
	}
	if _, err := c.OpenSession(ctx, client.SessionOptions{Stream: fast, Name: "taken", Holder: "first", Lease: time.Second}); err != nil {
		return err
	}
	fmt.Println("ready")
	<-ctx.Done()
	return nil
}
