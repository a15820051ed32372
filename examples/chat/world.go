package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/effectively-once/once/client"
	"github.com/effectively-once/once/examples/chat/room"
)

// A world is the five regions, the network between them, and the people who write.
type world struct {
	options options
	network *network
	regions map[string]*region
	stats   *stats

	stop    context.CancelFunc
	running sync.WaitGroup
	link    net.Listener // of the network
	ending  chan struct{}

	mu     sync.Mutex
	err    error
	people map[string]*client.Sender // by region and name
}

// open starts the five systems and their readers.
func open(ctx context.Context, o options) (w *world, err error) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	w = &world{
		options: o, network: newNetwork(o.latency), regions: map[string]*region{}, stats: newStats(), stop: stop,
		ending: make(chan struct{}), people: map[string]*client.Sender{},
	}
	var config net.ListenConfig
	if w.link, err = config.Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/{from}/{to}/{path...}", w.network)
	links := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	w.start(func() error {
		if err := links.Serve(w.link); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	})
	for _, name := range names {
		if err := w.openRegion(ctx, name); err != nil {
			return nil, errors.Join(err, w.close())
		}
	}
	return w, nil
}

// start runs a part of the world, and keeps its error.
func (w *world) start(run func() error) {
	w.running.Go(func() {
		if err := run(); err != nil {
			w.mu.Lock()
			w.err = errors.Join(w.err, err)
			w.mu.Unlock()
			w.stop()
		}
	})
}

func (w *world) openRegion(ctx context.Context, name string) error {
	r := &region{name: name, view: room.NewView(), more: make(chan struct{}), world: w}
	address := make(chan string, 1)
	ended := make(chan error, 1)
	w.start(func() error {
		err := r.run(ctx, w.options.data, w.link.Addr().String(), func(a string) { address <- a })
		ended <- err
		return err
	})
	select {
	case err := <-ended:
		return fmt.Errorf("open region %s: %w", name, err)
	case a := <-address:
		w.network.add(name, a)
		c, err := client.New("http://"+a, client.Options{})
		if err != nil {
			return err
		}
		r.client = c
	}
	w.regions[name] = r
	w.start(func() error { return r.read(ctx) })
	w.start(func() error { return r.watch(ctx, w.options.data) })
	return nil
}

// serve serves the page until the context ends or a region fails.
func (w *world) serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{Handler: w.handler(), ReadHeaderTimeout: 10 * time.Second}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	w.crowd(ctx)
	if w.options.cut != "" && w.options.length > 0 {
		go w.cutForAWhile(ctx)
	}
	select {
	case <-ctx.Done():
	case err := <-done:
		return err
	}
	close(w.ending)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return server.Shutdown(ctx)
}

func (w *world) cutForAWhile(ctx context.Context) {
	for _, off := range []bool{true, false} {
		select {
		case <-ctx.Done():
			return
		case <-time.After(w.options.length / 4):
			w.network.cut(w.options.cut, off)
		}
	}
}

// crowd lets people write by themselves, for three quarters of the time, so that the last lines
// arrive.
func (w *world) crowd(ctx context.Context) {
	var end <-chan time.Time // never
	if w.options.length > 0 {
		end = time.After(w.options.length * 3 / 4)
	}
	ctx, stop := context.WithCancel(ctx)
	go func() {
		defer stop()
		select {
		case <-ctx.Done():
		case <-end:
		}
	}()
	for i := range w.options.people {
		at := w.regions[names[i%len(names)]]
		go func() {
			for n := 1; ; n++ {
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Duration(rand.ExpFloat64() * float64(2*time.Second))): //nolint:gosec // a demonstration
				}
				var answers []room.Heard
				if rows, _ := at.after(0); len(rows) > 0 && rand.N(10) < 6 { //nolint:gosec // a demonstration
					answers = append(answers, rows[len(rows)-1].Heard)
				}
				_ = w.write(ctx, at, fmt.Sprintf("person-%02d", i), fmt.Sprintf("line %d", n), answers)
			}
		}()
	}
}

// write puts a line into the outbox of a person.
func (w *world) write(ctx context.Context, at *region, by, text string, answers []room.Heard) error {
	outbox, err := w.outbox(at, by)
	if err != nil {
		return err
	}
	w.stats.wrote(by, text, outbox.Pending()+1, time.Now())
	_, err = outbox.Send(ctx, room.Say(at.name, text, answers...))
	return err
}

// outbox returns the sender of a person in a region. It keeps lines in a folder until the region
// has them.
func (w *world) outbox(at *region, by string) (*client.Sender, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := at.name + "-" + url.PathEscape(by)
	if s := w.people[name]; s != nil {
		return s, nil
	}
	s, err := at.client.Sender(client.SenderOptions{
		Stream: room.Stream, Group: room.Group, Source: by, Folder: filepath.Join(w.options.data, "people", name), MaxMessages: 1000, WhenFull: client.Fail,
	})
	if err == nil {
		w.people[name] = s
	}
	return s, err
}

func (w *world) shown(name string, h room.Heard) {
	w.stats.shown(name, &h, time.Now())
}

func (w *world) report() string         { return w.stats.report() }
func (w *world) draw(file string) error { return w.stats.draw(file) }

// close ends the systems.
func (w *world) close() error {
	w.mu.Lock()
	people := slices.Collect(maps.Values(w.people))
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, outbox := range people {
		_ = outbox.Close(ctx) // unacknowledged lines stay in the folder
	}
	w.stop()
	_ = w.link.Close()
	w.running.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}
