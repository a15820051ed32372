package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/front/access"
	"github.com/effectively-once/once/internal/front/api"
	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
	"github.com/effectively-once/once/internal/system/function/environment"
	"github.com/effectively-once/once/internal/system/function/tasks"
	"github.com/effectively-once/once/localstack/lambda/host"
)

// pollWait is the wait of one receive on an empty queue. It is shorter than Lambda's, because an
// emulator continues to send messages to a receiver that has disconnected.
const pollWait = 2 * time.Second

// poll starts the event source mappings.
func (r *run) poll(ctx context.Context, wg *sync.WaitGroup) {
	feed := func(url, to string) {
		source := host.Source{Queue: sqsqueue.New(r.clients.SQS, url), Visibility: r.visibility, Wait: pollWait, Again: r.culprit.again, Log: r.log}
		if !queue.FIFO(url) {
			source.Batch = r.batch
		}
		for range r.pollers {
			wg.Go(func() { source.Poll(ctx, r.pools[to].Invoke) })
		}
	}
	for variable, to := range map[string]string{
		environment.IngressQueue: process, environment.IngressFIFOQueue: process, environment.PublishQueue: publish, environment.PublishFIFOQueue: publish,
	} {
		feed(r.urls[variable], to)
	}
	for _, url := range r.sources {
		feed(url, process)
	}
}

// sweepEvent is the event that a deployment's schedule sends to the process function.
const sweepEvent = `{"once":"` + tasks.Sweep + `"}`

// sweep invokes the process function at intervals until the context ends.
func (r *run) sweep(ctx context.Context) {
	tick := time.NewTicker(r.sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if _, err := r.pools[process].Invoke(context.WithoutCancel(ctx), []byte(sweepEvent)); err != nil {
			r.log.Error("sweep failed", "error", err)
		}
	}
}

// serve listens until the context ends, and then finishes the requests in progress.
func (r *run) serve(ctx context.Context) error {
	listener, err := access.ListenLoopback(ctx, r.listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := api.Server(r.listen, r.handler())
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	r.ready(listener.Addr().String())
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	close(r.done)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.timeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		return errors.Join(fmt.Errorf("drain requests: %w", err), server.Close())
	}
	return nil
}

func (r *run) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-r.done:
			http.Error(w, "about to end", http.StatusServiceUnavailable)
		default:
			w.WriteHeader(http.StatusOK)
		}
	})
	mux.Handle("/", host.Front(r.pools[ingest].Invoke))
	return mux
}
