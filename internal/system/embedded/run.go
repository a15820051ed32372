package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/dedup/admission"
	"github.com/effectively-once/once/internal/front/access"
	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/front/console"
	streams "github.com/effectively-once/once/internal/front/durable"
	"github.com/effectively-once/once/internal/front/problem"
	"github.com/effectively-once/once/internal/front/roles"
	"github.com/effectively-once/once/internal/front/sqsapi"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/pebblequeue"
	"github.com/effectively-once/once/internal/queue/wire"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/follow"
	"github.com/effectively-once/once/internal/system/pipeline"
)

// pollers is how many batches of each queue are processed concurrently. More hide the disk's
// latency, fewer make larger batches.
const pollers = 4

// drainTime is how long requests that are under way at the end may take.
const drainTime = 10 * time.Second

// frontDoor serves the HTTP contract, and the SQS JSON protocol to whoever speaks that.
func (s *System) frontDoor() (http.Handler, error) {
	engine, logs := durable{s.engine, s}, follow.NewLogs(s.store, &s.appends)
	calls := api.New(api.Options{
		Engine: engine, Queue: liveQueue{s}, System: s.options.Config.Name, Direct: s.direct, Logs: logs, Sessions: liveSessions{s}, Groups: follow.NewGroups(s.store, &s.appends),
		Streams: s.streamsOf, Principal: roles.Principal, Allow: roles.Allow,
		Await: s.untilDrained(api.Poll(engine)), MaxWaiting: s.options.MaxWaiting, Ready: s.Ready, Observe: s.telemetry.Observe, Now: s.options.Now, Log: s.options.Log, LogKeys: s.options.LogKeys,
	})
	contract := s.telemetry.HTTP(calls)
	pages, err := s.console(calls)
	if err != nil {
		return nil, err
	}
	byProtocol := streams.New(streams.Options{
		Engine: engine, Logs: logs, Load: s.store.Load, Now: s.options.Now, Log: s.options.Log, Principal: roles.Principal, Allow: roles.Allow, May: roles.May,
		Writable: func(name string) bool { x, ok := s.engine.Stream(name); return ok && pipeline.Forwards(x) },
	})
	sending, err := sqsapi.New(sqsapi.Config{
		Ingress: s.queues.ingress, IngressFIFO: s.queues.ingressFIFO, Trusted: []string{wire.Sender}, Log: s.options.Log,
		Stream: func(name string) bool { _, ok := s.engine.Stream(name); return ok },
		Check:  func(m *record.Message) error { x, _ := s.engine.Stream(m.Stream); return x.CheckBody(m) },
		Source: s.now().pipeline.SourceNamed, Enqueue: liveQueue{s}.EnqueueAll,
		Counts: func(q queue.Queue) (visible, inFlight, delayed int) {
			st := q.(*pebblequeue.Queue).Stats()
			return st.Ready, st.InFlight, st.Delayed
		},
	})
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.requests.enter() {
			p := problem.New(problem.Unavailable, "The server is ending. Send the request again when it has started.")
			p.RetryAfter = time.Second
			p.Write(w, "")
			return
		}
		defer s.requests.leave()
		if sqsapi.Handles(r) {
			sending.ServeHTTP(w, r)
			return
		}
		if pages != nil && (r.URL.Path == console.Path || strings.HasPrefix(r.URL.Path, console.Path+"/")) {
			pages.ServeHTTP(w, r)
			return
		}
		if strings.HasPrefix(r.URL.Path, streams.Prefix) {
			byProtocol.ServeHTTP(w, r)
			return
		}
		if s.metrics != nil && r.URL.Path == "/metrics" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			s.metrics.Handler().ServeHTTP(w, r)
			return
		}
		contract.ServeHTTP(w, r)
	}), nil
}

// console returns the pages at /console, or nil if there are none.
func (s *System) console(calls http.Handler) (http.Handler, error) {
	if s.options.Console == "" || s.options.Console == ConsoleOff {
		return nil, nil
	}
	return console.Handler(console.Options{
		System: s, API: calls, Write: s.options.Console == ConsoleWrite, DataDir: s.options.DataDir, Done: s.draining, Now: s.options.Now, Log: s.options.Log,
		Rates: s.rates,
		Allowed: func(host string) bool {
			name := hostName(host)
			return name != "" && ownName(name, s.namesBy(s.front.Load()))
		},
		Streams: func() []record.Stream {
			var out []record.Stream
			for _, name := range s.engine.StreamNames() {
				x, _ := s.engine.Stream(name)
				out = append(out, x)
			}
			return out
		},
	})
}

// untilDrained ends the waiting of callers when the system is about to end: their messages are
// accepted, and they are told so.
func (s *System) untilDrained(await awaiting) awaiting {
	return func(ctx context.Context, m record.Message) (admission.State, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-s.draining:
				cancel()
			case <-ctx.Done():
			}
		}()
		return await(ctx, m)
	}
}

type awaiting = func(context.Context, record.Message) (admission.State, error)

// Run serves, processes, publishes and sweeps until the context ends, and then finishes the calls
// and batches under way. It returns nil if the context ends, even before the system is ready.
func (s *System) Run(ctx context.Context) error {
	if s.now() == nil || s.options.ReadOnly {
		return errors.New("run system: not started, or opened to be read only")
	}
	if err := s.recall(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("run system: %w", err)
	}
	listener, err := s.listen(ctx) // first: a refused address ends Run before anybody is served
	if err != nil {
		return fmt.Errorf("run system: %w", err)
	}
	if listener != nil {
		defer func() { _ = listener.Close() }() // serve closes it, if it comes to that
	}
	stopOperators, err := s.serveOperators(ctx)
	if err != nil {
		return fmt.Errorf("run system: %w", err)
	}
	defer stopOperators()
	defer s.serveAdmin(ctx)()
	defer s.report(ctx)()
	// callers may wait for messages in process
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	serving, end := context.WithCancel(ctx) // ends earlier: no new messages while requests drain
	var wg sync.WaitGroup
	handling, halt := context.WithCancel(context.WithoutCancel(ctx))
	defer halt()
	for _, p := range s.pollers() {
		wg.Go(func() { p.run(working, handling) })
	}
	wg.Go(func() { s.queues.keeper.Run(working) })
	wg.Go(func() { s.sweepForever(working) })
	wg.Go(func() { s.walkForever(working) })
	wg.Go(func() { s.scheduleForever(serving) })
	err = s.serve(ctx, listener)
	end()
	stop()
	defer time.AfterFunc(pollTimeout, func() { halt(); s.direct.Halt() }).Stop()
	s.direct.Close()
	wg.Wait()
	s.requests.close()
	s.flush()
	if err == nil {
		s.options.Log.Info(record.LogStopped)
	}
	return err
}

// pollers makes the event source mappings: the process function behind the ingress queues, the
// publish function behind the publish queues.
func (s *System) pollers() []*poller {
	processing := func(ctx context.Context, d []queue.Delivery) []queue.Disposition {
		return s.now().process.Handle(ctx, d)
	}
	publishing := func(ctx context.Context, d []queue.Delivery) []queue.Disposition {
		ctx, cancel := context.WithTimeout(ctx, pollTimeout)
		defer cancel()
		return s.now().publish(ctx, d)
	}
	var out []*poller
	for range pollers {
		for _, q := range []*pebblequeue.Queue{s.queues.ingress, s.queues.ingressFIFO} {
			p := s.poller(q, processing)
			p.longest = func() time.Duration { return s.now().pipeline.Longest() }
			p.parts = func(batch []queue.Delivery) [][]queue.Delivery { return s.now().apart(batch) }
			out = append(out, p)
		}
		for _, q := range []*pebblequeue.Queue{s.queues.publish, s.queues.publishFIFO} {
			out = append(out, s.poller(q, publishing))
		}
	}
	return out
}

func (s *System) poller(q *pebblequeue.Queue, handle queue.Handler) *poller {
	return &poller{
		queue: q, handle: handle, log: s.options.Log, wrote: func() { s.dirty.Store(true) },
		longest: func() time.Duration { return 0 }, parts: whole,
	}
}

// trusting decodes deliveries with the system's own parts as trusted senders. Neither the HTTP API
// nor the SQS endpoint lets a client send under their name.
func trusting() wire.Defaults { return wire.Defaults{Trusted: []string{wire.Sender}} }

// listen opens the HTTP listener, and logs how others could misuse it. It returns nil if there is
// none.
func (s *System) listen(ctx context.Context) (net.Listener, error) {
	if s.options.Listen == "" {
		return nil, nil
	}
	c, open := cmp.Or(s.options.Server, &config.Server{}), access.ListenLoopback
	if s.options.Insecure || c.Auth != nil {
		open = access.Listen
	}
	listener, err := open(context.WithoutCancel(ctx), s.options.Listen)
	if errors.Is(err, access.ErrExposed) {
		err = fmt.Errorf("%w: listen on 127.0.0.1, or set server.auth in the configuration, or Options.Insecure", err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	for _, w := range c.Exposed(listener.Addr().String()) {
		s.options.Log.Warn("the server is exposed", "what", w)
	}
	return listener, nil
}

// serve serves until the context ends. listener may be nil.
func (s *System) serve(ctx context.Context, listener net.Listener) error {
	if listener == nil {
		s.up("")
		<-ctx.Done()
		s.down()
		return nil
	}
	server := s.server()
	s.up(listener.Addr().String())
	done := make(chan error, 1)
	go func() {
		if server.TLSConfig != nil {
			done <- server.ServeTLS(listener, "", "")
			return
		}
		done <- server.Serve(listener)
	}()
	select {
	case err := <-done:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	s.down()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("drain requests: %w", err), server.Close())
	}
	return nil
}

func (s *System) up(address string) {
	s.mu.Lock()
	s.ready = true
	s.mu.Unlock()
	s.direct.Open()
	s.options.Ready(address)
}

// down says that the system is about to end.
func (s *System) down() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = false
	close(s.draining)
	s.appends.Close()
	s.options.Log.Info(record.LogDraining)
}

// serveAdmin answers the command line through the socket in the data folder. Without the socket,
// where its path is too long for example, everything else works.
func (s *System) serveAdmin(ctx context.Context) (stop func()) {
	listener, err := admin.Listen(ctx, s.options.DataDir)
	if err != nil {
		s.options.Log.Warn("the command line cannot ask this process", "error", err)
		return func() {}
	}
	server := &http.Server{Handler: admin.Handler(s), ReadHeaderTimeout: 10 * time.Second}
	closeUnused(server)
	go func() { _ = server.Serve(listener) }() // ends with Shutdown, and says so
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
		defer cancel()
		_ = server.Shutdown(ctx) // whoever still asks then gets no answer
	}
}
