package lambdadev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/api"
	"github.com/effectively-once/once/internal/lambda"
	"github.com/effectively-once/once/internal/lambdahost"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
)

// pollWait is how long one look at an empty queue lasts. It is shorter than Lambda's: an emulator goes on giving messages to whoever has gone away in the middle of one.
const pollWait = 2 * time.Second

// poll starts the event source mappings.
func (r *run) poll(ctx context.Context, wg *sync.WaitGroup) {
	for variable, function := range map[string]string{
		lambda.EnvIngressQueue: process, lambda.EnvIngressFIFOQueue: process, lambda.EnvPublishQueue: publish, lambda.EnvPublishFIFOQueue: publish,
	} {
		source := lambdahost.Source{
			Queue: sqsqueue.New(r.clients.SQS, r.urls[variable]), Visibility: r.Visibility, Wait: pollWait, Again: r.culprit.again, Log: r.Log,
		}
		for range r.Pollers {
			wg.Go(func() { source.Poll(ctx, r.pools[function].Invoke) })
		}
	}
}

// sweepEvent is what a deployment's schedule sends to the process function.
const sweepEvent = `{"once":"` + lambda.TaskSweep + `"}`

// sweep invokes the process function from time to time until the context ends.
func (r *run) sweep(ctx context.Context) {
	tick := time.NewTicker(r.Sweep)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if _, err := r.pools[process].Invoke(context.WithoutCancel(ctx), []byte(sweepEvent)); err != nil {
			r.Log.Error("sweep failed", "error", err)
		}
	}
}

// serve listens until the context ends, and finishes the requests that are under way then.
func (r *run) serve(ctx context.Context) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", r.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := api.Server(r.Listen, r.handler())
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	r.Ready(listener.Addr().String())
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	close(r.done)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.Timeout)
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
	mux.Handle("/", lambdahost.Front(r.pools[ingest].Invoke))
	return mux
}
