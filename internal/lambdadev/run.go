package lambdadev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/effectively-once/once/internal/lambda"
	"github.com/effectively-once/once/internal/lambdahost"
)

// Options of a run. Zero fields take the defaults in their comments.
type Options struct {
	// Config is the path of the configuration. Defaults to one stream, messages, of key admission and without destinations.
	Config string
	// Name begins the names of tables and queues. Defaults to "once".
	Name string
	// Listen is the address of the front door. Defaults to 127.0.0.1:8080.
	Listen string
	// Functions is a folder with ingest/bootstrap, process/bootstrap and publish/bootstrap. By default they are built from the repository around the current folder, or are
	// those of dist where there is none.
	Functions string
	// Timeout of an invocation. Defaults to 30 s.
	Timeout time.Duration
	// Visibility is when a message that failed comes again; longer than the timeout. Defaults to six times the timeout.
	Visibility time.Duration
	// Pollers is how many batches of each queue are worked on at once. Defaults to 2.
	Pollers int
	// Requests is how many requests are worked on at once. Defaults to 8.
	Requests int
	// Sweep is the time between sweeps. Defaults to 5 minutes.
	Sweep time.Duration
	// Faults default to none.
	Faults Faults
	// Ready is called once, with the address of the front door, when it serves. Defaults to nothing.
	Ready func(address string)
	// Output gets what the functions write, their logs. Defaults to discarding.
	Output io.Writer
	// Log defaults to discarding.
	Log *slog.Logger
}

// defaultConfig is more than one line, by which functions tell a text from a path.
const defaultConfig = "streams:\n  messages: {admission: key}\n"

func (o Options) withDefaults() Options {
	orElse(&o.Name, "once")
	orElse(&o.Listen, "127.0.0.1:8080")
	orElse(&o.Timeout, lambdahost.DefaultTimeout)
	orElse(&o.Visibility, 6*o.Timeout)
	orElse(&o.Pollers, 2)
	orElse(&o.Requests, 8)
	orElse(&o.Sweep, 5*time.Minute)
	if o.Ready == nil {
		o.Ready = func(string) {}
	}
	if o.Output == nil {
		o.Output = io.Discard
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

func orElse[T comparable](value *T, otherwise T) {
	var zero T
	if *value == zero {
		*value = otherwise
	}
}

func (o Options) validate() error {
	switch f := o.Faults; {
	case f.Duplicate < 0 || f.Duplicate > 1:
		return fmt.Errorf("faults: a share of %v duplicates is not from 0 to 1", f.Duplicate)
	case f.Hang < 0 || f.Hang > 1:
		return fmt.Errorf("faults: a share of %v hanging invocations is not from 0 to 1", f.Hang)
	case f.KillEvery < 0:
		return fmt.Errorf("faults: can't kill every %v", f.KillEvery)
	case o.Visibility <= o.Timeout:
		return fmt.Errorf("visibility %v is not longer than timeout %v: two would work on one delivery", o.Visibility, o.Timeout)
	}
	return nil
}

// A run is a deployment on this machine.
type run struct {
	Options
	clients lambda.Clients
	culprit *culprit

	env   []string          // of the functions
	urls  map[string]string // of the queues, by the names of their variables
	pools map[string]*lambdahost.Pool
	done  chan struct{} // closed when the run begins to end
}

// Run makes what is missing of tables and queues, starts the functions, and serves and polls until the context ends; then it finishes what is under way. See the errors of the
// package.
func Run(ctx context.Context, o Options) (err error) {
	o = o.withDefaults()
	r := &run{Options: o, culprit: &culprit{Faults: o.Faults}, urls: map[string]string{}, pools: map[string]*lambdahost.Pool{}, done: make(chan struct{})}
	if err := errors.Join(o.validate(), checkEndpoints(os.Getenv)); err != nil {
		return fmt.Errorf("run functions: %w", err)
	}
	temporary, err := os.MkdirTemp("", "once-functions-")
	if err != nil {
		return fmt.Errorf("run functions: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	if err := r.open(ctx, temporary); err != nil {
		return fmt.Errorf("run functions: %w", err)
	}
	defer func() { err = errors.Join(err, r.close()) }()
	return r.work(ctx)
}

// open makes everything ready to be invoked.
func (r *run) open(ctx context.Context, temporary string) error {
	if err := errors.Join(r.configure(), credentials()); err != nil {
		return err
	}
	binaries, err := findBootstraps(ctx, r.Functions, temporary)
	if err != nil {
		return err
	}
	if r.clients, err = lambda.NewClients(ctx); err != nil {
		return err
	}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	for name, path := range binaries {
		limit := 4 * r.Pollers // two queues, and duplicates beside
		if name == ingest {
			limit = r.Requests
		}
		r.pools[name] = lambdahost.NewPool(path, lambdahost.PoolOptions{
			Options: lambdahost.Options{Name: name, Env: r.env, Timeout: r.Timeout, Output: r.Output}, Limit: limit, Hang: r.culprit.hang,
		})
	}
	return r.start(ctx)
}

// configure puts the configuration into the environment of the functions.
func (r *run) configure() error {
	text := defaultConfig
	if r.Config != "" {
		path, err := filepath.Abs(r.Config)
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			return fmt.Errorf("read configuration: %w", err)
		}
		text = path
	}
	r.env = append(r.env, lambda.EnvConfig+"="+text, "AWS_LAMBDA_LOG_FORMAT=JSON")
	return nil
}

// start starts one process of each function: what hinders it is known before anything is sent.
func (r *run) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	for _, name := range []string{ingest, process, publish} {
		if err := r.pools[name].Start(ctx); err != nil {
			return errors.Join(fmt.Errorf("%w: the reason is in its output", err), r.close())
		}
	}
	return nil
}

func (r *run) close() error {
	var errs []error
	for _, p := range r.pools {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// work serves and polls until the context ends.
func (r *run) work(ctx context.Context) error {
	defer r.culprit.report(r.Log)
	polling, stop := context.WithCancel(context.WithoutCancel(ctx)) // callers may wait for what is processed
	var wg sync.WaitGroup
	r.poll(polling, &wg)
	wg.Go(func() { r.sweep(polling) })
	wg.Go(func() { r.culprit.kill(polling, r.poolList()) })
	err := r.serve(ctx)
	stop()
	wg.Wait()
	return err
}

func (r *run) poolList() []*lambdahost.Pool {
	return []*lambdahost.Pool{r.pools[ingest], r.pools[process], r.pools[publish]}
}
