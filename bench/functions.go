package main

import (
	"archive/zip"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/effectively-once/once/bench/table"
	"github.com/effectively-once/once/internal/system/function/environment"
	"github.com/effectively-once/once/localstack/lambda/host"
)

// The aims for the deployed functions.
const (
	zipAim  = 12.0 // MB
	initAim = 1.5  // times the start of the floor
)

// starts is how often each function is started in a round.
const starts = 40

// functionConfig has a destination of each kind that can be deployed.
const functionConfig = `
streams:
  orders:   {destinations: [shop, billing]}
  payments: {admission: sequence, destinations: [news, events, ahead]}
  tokens:   {admission: token, destinations: [shop]}
destinations:
  shop:    {webhook: "https://shop.example/hook", secret: "env:SHOP_SECRET"}
  billing: {sqs: billing.fifo}
  news:    {sns: news.fifo}
  events:  {eventbridge: default}
  ahead:   {stream: orders}
`

// A bootstrap is a built function.
type bootstrap struct {
	Name   string `json:"name"`
	path   string
	Binary int64       `json:"binary_bytes"`
	Zip    int64       `json:"zip_bytes"`
	Starts [][]float64 `json:"starts_ms"` // by round
	CPU    [][]float64 `json:"cpu_ms"`
}

// A source is a function to build. The first one is the floor.
type source struct{ name, folder, tags string }

func sources() []source {
	const tags = "lambda.norpc"
	return []source{
		{"floor: links the clients of DynamoDB and SQS", "linked", tags},
		{"floor: does nothing", "hello", tags},
		{"ingest", "../functions/ingest", tags},
		{"process", "../functions/process", tags},
		{"publish", "../functions/publish", tags},
	}
}

// functions builds the deployed functions and the floors, and starts all of them in turn under the
// local Lambda host.
func functions(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "once-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	environment, err := functionEnvironment(dir)
	if err != nil {
		return err
	}
	var built []*bootstrap
	for _, s := range sources() {
		b, err := buildBootstrap(ctx, dir, s)
		if err != nil {
			return err
		}
		built = append(built, b)
	}
	for range o.rounds {
		if err := startAll(ctx, built, environment); err != nil {
			return err
		}
	}
	return o.reportFunctions(built)
}

// functionEnvironment returns the environment of a deployment. A start calls none of its services.
// It omits certificate bundles of this machine, which each start would read.
func functionEnvironment(dir string) ([]string, error) {
	config := filepath.Join(dir, "once.yaml")
	queue := "https://sqs.us-east-1.amazonaws.com/000000000000/"
	return []string{
		environment.Config + "=" + config, environment.GroupsTable + "=groups", environment.TokensTable + "=tokens", environment.Bucket + "=bucket", environment.TrustedSenders + "=AROAEXAMPLE",
		environment.IngressQueue + "=" + queue + "ingress", environment.IngressFIFOQueue + "=" + queue + "ingress.fifo",
		environment.PublishQueue + "=" + queue + "publish", environment.PublishFIFOQueue + "=" + queue + "publish.fifo",
		environment.DeadQueue + "=" + queue + "dead", environment.DeadPublishQueue + "=" + queue + "dead-publish",
		"SHOP_SECRET=whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0", "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=bench", "AWS_SECRET_ACCESS_KEY=bench", "AWS_LAMBDA_LOG_FORMAT=JSON",
		"AWS_CA_BUNDLE=", "OTEL_EXPORTER_OTLP_ENDPOINT=",
	}, os.WriteFile(config, []byte(functionConfig), 0o600)
}

// buildBootstrap builds a function as infra/Makefile does, for this machine.
func buildBootstrap(ctx context.Context, dir string, s source) (*bootstrap, error) {
	b := &bootstrap{Name: s.name, path: filepath.Join(dir, strings.ReplaceAll(s.name, " ", "-"))}
	command := exec.CommandContext(ctx, "go", "build", "-tags", s.tags, "-trimpath", "-ldflags=-s -w", "-o", b.path, ".") //nolint:gosec // its own source
	// The folder decides with which versions it is built: those of its module.
	command.Dir = s.folder
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s: %w: %s", s.name, err, text)
	}
	info, err := os.Stat(b.path)
	if err != nil {
		return nil, err
	}
	b.Binary = info.Size()
	b.Zip, err = zipped(b.path)
	return b, err
}

// zipped returns the size of an archive that contains one file.
func zipped(path string) (n int64, err error) {
	file, err := os.Open(path) //nolint:gosec // what was built
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var counted counter
	archive := zip.NewWriter(&counted)
	archive.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	entry, err := archive.Create("bootstrap")
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(entry, file)
	return int64(counted), errors.Join(err, archive.Close())
}

// A counter counts written bytes.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// startAll does one round: all functions in turn, so that other load on the machine affects all of
// them.
func startAll(ctx context.Context, all []*bootstrap, environment []string) error {
	for _, b := range all {
		b.Starts, b.CPU = append(b.Starts, nil), append(b.CPU, nil)
	}
	for range starts {
		for _, b := range all {
			took, cpu, err := startOnce(ctx, b.path, environment)
			if err != nil {
				return fmt.Errorf("%s: %w", b.Name, err)
			}
			last := len(b.Starts) - 1
			b.Starts[last], b.CPU[last] = append(b.Starts[last], took.Seconds()*1000), append(b.CPU[last], cpu)
		}
	}
	return nil
}

// startOnce returns the time from before the process is created until it asks for its first event,
// and the CPU time of the process in ms.
func startOnce(ctx context.Context, path string, environment []string) (took time.Duration, cpu float64, err error) {
	instance := host.New(path, host.Options{Env: environment, Output: os.Stderr})
	before, began := childCPU(), time.Now()
	err = instance.Start(ctx)
	took = time.Since(began)
	err = errors.Join(err, instance.Close())
	return took, micros(childCPU()-before) / 1000, err
}

// childCPU returns the CPU time of all child processes that have ended.
func childCPU() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_CHILDREN, &r) // it never fails with these arguments
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// reportFunctions prints the medians of all starts, and the median of the rounds' ratios with their
// range. All are compared with the first one.
func (o options) reportFunctions(all []*bootstrap) error {
	if o.json {
		return o.print(all)
	}
	t := table.Table{Head: []string{"function, " + runtime.GOARCH, "binary, MB", "zip, MB", "start, ms", "beside the floor", "CPU, ms", "beside the floor", "aim"}}
	for _, b := range all {
		aim := fmt.Sprintf("≤ %g, zip ≤ %g MB", initAim, zipAim)
		if strings.Contains(b.Name, "floor") {
			aim = "–"
		}
		t.Add(b.Name, table.Digits(megabytes(b.Binary)), table.Digits(megabytes(b.Zip)), table.Digits(table.Median(slices.Concat(b.Starts...))), besideFloor(b.Starts, all[0].Starts),
			table.Digits(table.Median(slices.Concat(b.CPU...))), besideFloor(b.CPU, all[0].CPU), aim)
	}
	return t.Write(os.Stdout)
}

// besideFloor returns the ratios of the rounds' medians.
func besideFloor(figures, floor [][]float64) string {
	ratios := make([]float64, len(figures))
	for i := range figures {
		ratios[i] = table.Median(figures[i]) / table.Median(floor[i])
	}
	return table.SpreadOf(ratios).String()
}

func megabytes(n int64) float64 { return float64(n) / 1e6 }
