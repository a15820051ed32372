package main

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

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/effectively-once/once/internal/aws/awsconfig"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/system/function"
	"github.com/effectively-once/once/internal/system/function/environment"
	"github.com/effectively-once/once/localstack/lambda/host"
)

// options of a run.
type options struct {
	// config is the path of the configuration. If empty: one stream, messages, of key admission and
	// without destinations.
	config string
	// name begins the names of tables and queues.
	name string
	// listen is the address of the HTTP API.
	listen string
	// functions is a folder with ingest/bootstrap, process/bootstrap and publish/bootstrap. If
	// empty, they are built from the repository around the current folder; outside it, those of
	// dist are used.
	functions string
	// timeout of an invocation.
	timeout time.Duration
	// visibility is the visibility timeout of the queues, longer than timeout. If zero: six
	// timeouts.
	visibility time.Duration
	// pollers is the number of batches of each queue in flight.
	pollers int
	// batch is the largest number of messages in a batch of a queue that is not FIFO.
	batch int
	// requests is the number of HTTP requests in flight.
	requests int
	// sweepEvery is the time between sweeps.
	sweepEvery time.Duration
	faults     faults
	// ready is called once, with the address of the HTTP API, when it serves.
	ready func(address string)
	// output receives the logs of the functions.
	output io.Writer
	log    *slog.Logger
}

// defaultConfig has more than one line, so that the functions treat it as text and not as a path.
const defaultConfig = "streams:\n  messages: {admission: key}\n"

func defaults() options {
	return options{
		name: "once", listen: "127.0.0.1:8080", timeout: host.DefaultTimeout, pollers: 2, batch: 10, requests: 8, sweepEvery: 5 * time.Minute,
		ready: func(string) {}, output: io.Discard, log: slog.New(slog.DiscardHandler),
	}
}

// validate returns an error for values that no run can use. A share may be NaN, which flags accept.
func (o options) validate() error {
	isShare := func(x float64) bool { return x >= 0 && x <= 1 }
	var problem string
	switch {
	case !isShare(o.faults.Duplicate):
		problem = "-duplicate must be between 0 and 1"
	case !isShare(o.faults.Hang):
		problem = "-hang must be between 0 and 1"
	case o.faults.KillEvery < 0:
		problem = "-kill-every must be at least 0"
	case o.faults.KillNth < 0:
		problem = "-kill-nth must be at least 0"
	case o.pollers < 1:
		problem = "-batches must be at least 1"
	case o.batch < 1:
		problem = "-batch must be at least 1"
	case o.requests < 1:
		problem = "-requests must be at least 1"
	case o.timeout <= 0:
		problem = "-timeout must be more than 0"
	case o.sweepEvery <= 0:
		problem = "-sweep-every must be more than 0"
	case o.visibility != 0 && o.visibility <= o.timeout:
		problem = fmt.Sprintf("-visibility must be longer than the timeout, %v: two processes would work on one delivery", o.timeout)
	default:
		return nil
	}
	return errors.New(problem)
}

// A run is a deployment on this machine.
type run struct {
	options
	clients function.Clients
	culprit *culprit

	parsed  *config.Config
	env     []string          // of the functions
	urls    map[string]string // of the queues, by the names of their variables
	sources map[string]string // URLs of the queues of sources, by the names of these
	pools   map[string]*host.Pool
	done    chan struct{} // closed when the run begins to end
}

// serveFunctions creates the tables and queues that are missing, starts the functions, and serves
// and polls until the context ends. Then it finishes the requests and batches in flight.
func serveFunctions(ctx context.Context, o options) (err error) {
	if o.visibility == 0 {
		o.visibility = 6 * o.timeout
	}
	r := &run{
		options: o, culprit: &culprit{faults: o.faults}, urls: map[string]string{}, sources: map[string]string{}, pools: map[string]*host.Pool{}, done: make(chan struct{}),
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

// pass passes region and credentials to the functions in variables, as Lambda does. Here a profile
// may have them.
func (r *run) pass(ctx context.Context, cfg aws.Config) error {
	c, err := cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return fmt.Errorf("read AWS credentials: %w", err)
	}
	r.env = append(r.env, "AWS_REGION="+cfg.Region, "AWS_ACCESS_KEY_ID="+c.AccessKeyID, "AWS_SECRET_ACCESS_KEY="+c.SecretAccessKey, "AWS_SESSION_TOKEN="+c.SessionToken)
	for _, name := range []string{"AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
		r.env = append(r.env, name+"=")
	}
	return nil
}

// open prepares everything for invocations.
func (r *run) open(ctx context.Context, temporary string) error {
	if err := errors.Join(r.configure(), credentials()); err != nil {
		return err
	}
	binaries, err := findBootstraps(ctx, r.functions, temporary)
	if err != nil {
		return err
	}
	cfg, err := awsconfig.Load(ctx)
	if err != nil {
		return fmt.Errorf("read AWS settings: %w", err)
	}
	r.clients = function.NewClients(cfg)
	if err := r.pass(ctx, cfg); err != nil {
		return err
	}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	for name, path := range binaries {
		limit := 4 * r.pollers // two queues, and duplicates
		switch name {
		case ingest:
			limit = r.requests
		case process:
			limit += 2 * r.pollers * len(r.sources)
		}
		r.pools[name] = host.NewPool(path, host.PoolOptions{
			Options: host.Options{Name: name, Env: r.env, Timeout: r.timeout, Output: r.output}, Limit: limit, Hang: r.culprit.hang, Kill: r.culprit.killNth,
		})
	}
	return r.start(ctx)
}

// configure adds the configuration to the environment of the functions.
func (r *run) configure() error {
	text := defaultConfig
	var err error
	if r.config != "" {
		if text, err = filepath.Abs(r.config); err == nil {
			r.parsed, err = config.Load(text)
		}
	} else {
		r.parsed, err = config.Parse("default", []byte(text))
	}
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	r.env = append(r.env, environment.Config+"="+text, "AWS_LAMBDA_LOG_FORMAT=JSON")
	return nil
}

// start starts one process of each function, so that errors are found before any message is sent.
func (r *run) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
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
	defer r.culprit.report(r.log)
	// callers may wait for messages that are still processed
	polling, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	r.poll(polling, &wg)
	wg.Go(func() { r.sweep(polling) })
	wg.Go(func() { r.culprit.kill(polling, r.poolList()) })
	err := r.serve(ctx)
	stop()
	wg.Wait()
	return err
}

func (r *run) poolList() []*host.Pool {
	return []*host.Pool{r.pools[ingest], r.pools[process], r.pools[publish]}
}
