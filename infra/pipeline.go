package infra

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseventstargets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/effectively-once/once/internal/aws/permission"
	"github.com/effectively-once/once/internal/config"
)

// ingestTimeout is the longest time that API Gateway waits.
const ingestTimeout = 29 * time.Second

// maxNamespace is the longest namespace of CloudWatch.
const maxNamespace = 255

// PipelineProps configure a pipeline. Config and Assets, or the three functions, are required.
type PipelineProps struct {
	// Config is the text of once.yaml: streams and destinations. The functions get the permissions
	// for its destinations.
	Config string
	// Assets is a folder with the folders ingest, process and publish, each with a file bootstrap.
	// The app defaults to ../dist.
	Assets string
	// Archives are the functions in place of Assets, and have their configuration. Config is then
	// what permissions, sources and retries follow from. Defaults to none.
	Archives *Archives
	// ProcessFunction is a folder with your own bootstrap, with handlers in Go. Handlers of
	// one-time requests run in the IngestFunction, so that needs your bootstrap too. Each defaults
	// to its folder in Assets.
	IngestFunction, ProcessFunction, PublishFunction string
	// Handlers are the functions that handle streams, by the names of the streams. A function
	// replaces the function in Config for its stream; the other settings of the handler are those
	// of Config. Default to the functions that Config names.
	Handlers map[string]awslambda.IFunction
	// Architecture is what the bootstraps are built for. Defaults to arm64; the app, for emulators,
	// to that of this machine.
	Architecture Architecture
	// Memory of each function, in MB; its CPU is proportional. Defaults to 512.
	Memory int
	// Timeout of the process and publish functions. Defaults to 30 s. A failed message is retried
	// after six times as long.
	Timeout time.Duration
	// MaxConcurrency of each queue. Defaults to 50; not with Pollers.
	MaxConcurrency int
	// ReservedConcurrency of each function, at least 2·MaxConcurrency + 1: two queues feed a
	// function, and sweeps or redrives. Sources of the configuration are further queues of the
	// process function. Defaults to 0, which reserves and limits nothing.
	ReservedConcurrency int
	// IngestConcurrency, ProcessConcurrency and PublishConcurrency are the same for one function.
	// Each defaults to ReservedConcurrency. A limit for ingest alone keeps callers that wait for
	// replies from using up the concurrency that the process function needs to make them.
	IngestConcurrency, ProcessConcurrency, PublishConcurrency int
	// BatchSize is how many messages an invocation gets at most. Defaults to 10, the most for
	// first-in-first-out queues; standard queues have up to 10,000 with a BatchWindow.
	BatchSize int
	// BatchWindow is how long messages of a standard queue are collected, at most 5 minutes.
	// Defaults to 0.
	BatchWindow time.Duration
	// Pollers are dedicated to each queue. Defaults to none: Lambda scales its own pollers up to
	// MaxConcurrency.
	Pollers *Pollers
	// MaxReceives is how often a message is received before an ingress queue moves it to its
	// dead-letter queue. The functions refuse hopeless messages earlier, with a reason. Defaults to
	// what the retry policies of the streams and destinations in Config need, at most 1000. Set it
	// if a function declares a stream in code with a policy of more tries.
	MaxReceives int
	// Sweep is the interval between sweeps of groups with held messages. Defaults to 1 minute.
	Sweep time.Duration
	// SweepAll is the interval between sweeps of all groups, which finish the work of crashed
	// workers. Each runs for up to Timeout, and starts at a different group. Defaults to 1 hour.
	SweepAll time.Duration
	// MetricsNamespace is the namespace of the metrics in CloudWatch. Defaults to the path of the
	// pipeline in the app, such as Shop/Orders, the app to the name of the stack. Pipelines in one
	// account and region that share a namespace are counted as one.
	MetricsNamespace string
	// Paused accepts messages and processes none: queues feed nothing, and nothing is swept.
	// Defaults to false.
	Paused bool
	// Environment has further variables of the functions. Everybody who may read a function's
	// configuration sees them.
	Environment map[string]string
	// KMSKeys are the ARNs of customer-managed keys with which destinations and secrets are
	// encrypted. Defaults to none.
	KMSKeys []string
	// LogRetentionDays is how long logs are kept. Defaults to 30; one of the numbers that
	// CloudWatch has.
	LogRetentionDays int
	// API defaults to an HTTP API with IAM.
	API APISettings
	// Tables default to new ones.
	Tables *Tables
	// Keys encrypt the resources. Default to keys that AWS manages.
	Keys Keys
	// BucketLogs is a bucket for the access logs of the pipeline's bucket, in the same region and
	// account. Defaults to none.
	BucketLogs awss3.IBucket
	// Network is where the functions run. Defaults to none of your own.
	Network *Network
	// PermissionsBoundary bounds all roles of the pipeline. Defaults to none.
	PermissionsBoundary awsiam.IManagedPolicy
	// Layers of the functions, such as a collector of telemetry. Default to none.
	Layers []awslambda.ILayerVersion
	// Tracing has AWS X-Ray record each invocation, and each request of a REST API. Defaults to
	// false.
	Tracing bool
	// Unprotected deletes tables, queues, bucket and logs with the stack. Defaults to false: they
	// stay if the stack is deleted or an update replaces them.
	Unprotected bool
	// Emulator leaves out what emulators refuse or skip: the dashboard, the role for access logs of
	// REST APIs, termination protection. It also trusts the account as sender of messages, because
	// emulators know no other.
	Emulator bool
}

// fifoBatch is the largest batch that Lambda takes from a first-in-first-out queue, or from any
// without a window.
const fifoBatch = 10

// Pollers are the event pollers that Lambda dedicates to each queue: 2 to 200 always, and up to
// 2,000. Each causes up to ten invocations at once.
type Pollers struct{ Min, Max int }

// perPoller is how many invocations a poller causes at once.
const perPoller = 10

func (p *PipelineProps) withDefaults() *PipelineProps {
	d, out := defaults(), *p
	orElse(&out.Architecture, d.Architecture)
	orElse(&out.Memory, d.Memory)
	orElse(&out.Timeout, d.Timeout)
	orElse(&out.MaxConcurrency, d.MaxConcurrency)
	orElse(&out.BatchSize, d.BatchSize)
	orElse(&out.IngestConcurrency, out.ReservedConcurrency)
	orElse(&out.ProcessConcurrency, out.ReservedConcurrency)
	orElse(&out.PublishConcurrency, out.ReservedConcurrency)
	out.Keys = out.Keys.withDefaults()
	orElse(&out.Sweep, d.Sweep)
	orElse(&out.SweepAll, d.SweepAll)
	orElse(&out.LogRetentionDays, d.LogRetentionDays)
	orElse(&out.API.Kind, d.API.Kind)
	orElse(&out.API.Auth, d.API.Auth)
	orElse(&out.API.Rate, d.API.Rate)
	orElse(&out.API.Burst, d.API.Burst)
	orElse(&out.IngestFunction, filepath.Join(out.Assets, "ingest"))
	orElse(&out.ProcessFunction, filepath.Join(out.Assets, "process"))
	orElse(&out.PublishFunction, filepath.Join(out.Assets, "publish"))
	return &out
}

// checkDirect returns an error if the ingest function is to process messages, and the handlers are
// in another program.
func (p *PipelineProps) checkDirect(c *config.Config) error {
	stock := (&PipelineProps{Assets: p.Assets}).withDefaults()
	if p.ProcessFunction == stock.ProcessFunction || p.IngestFunction != stock.IngestFunction {
		return nil
	}
	for _, name := range c.StreamNames() {
		if set := c.Streams[name].Direct; set != nil && *set {
			return fmt.Errorf("streams.%s.direct: the ingest function processes messages itself, so it needs the handlers of ProcessFunction: set IngestFunction, too", name)
		}
	}
	return nil
}

func orElse[T comparable](value *T, otherwise T) {
	var zero T
	if *value == zero {
		*value = otherwise
	}
}

// A Pipeline accepts messages over HTTP and SQS, processes each one time, and sends its effects. It
// is a construct: aspects, tags and permission boundaries apply to it, and other constructs can be
// made in its scope.
type Pipeline struct {
	constructs.Construct

	Tables *Tables
	Queues *Queues
	Bucket awss3.Bucket
	API    *API
	// Sweep and SweepAll are the schedules of the sweeps.
	Sweep, SweepAll awsevents.Rule
	// MetricsNamespace is the namespace of the metrics.
	MetricsNamespace string

	Ingest, Process, Publish awslambda.Function

	trusted []*string

	stackName *string

	// the props that alarms depend on
	reserved                  map[string]int // by function; 0 without a reservation
	perQueue                  int            // invocations that each queue can cause
	sweepEvery, sweepAllEvery time.Duration
	paused                    bool
}

// Metric returns a metric of the pipeline for an alarm or a dashboard. docs/observability.md lists
// the names. If options is nil, it is the sum over five minutes; without dimensions it is for the
// whole pipeline.
func (p *Pipeline) Metric(name string, options *awscloudwatch.MetricOptions) awscloudwatch.Metric {
	metric := p.counted(name)
	if options != nil {
		metric = metric.With(options)
	}
	return metric
}

// NewPipeline returns a pipeline. If the configuration, the props or the bootstraps are invalid, it
// returns an error before it makes anything.
func NewPipeline(scope constructs.Construct, id string, props *PipelineProps) (*Pipeline, error) {
	if props == nil {
		return nil, errors.New("make pipeline: no props")
	}
	scaling := props.checkScaling()
	props = props.withDefaults()
	parsed, err := config.Parse(configFile, []byte(props.Config))
	if err != nil {
		return nil, fmt.Errorf("make pipeline: %w", err)
	}
	destinations, err := permission.For(parsed, props.Environment)
	handlers, unfit := props.handlers(parsed)
	restores := parsed.CheckRestores(time.Now()) //nolint:forbidigo // it is deployed now
	if err := errors.Join(err, unfit, parsed.CheckDirect(), restores, props.checkDirect(parsed), scaling, props.checkReserved(len(parsed.Ingress)), props.API.check()); err != nil {
		return nil, fmt.Errorf("make pipeline: %w", err)
	}
	for _, key := range props.KMSKeys {
		destinations = append(destinations, permission.Permission{Action: "kms:Decrypt", Resource: permission.Resource{ARN: key}},
			permission.Permission{Action: "kms:GenerateDataKey", Resource: permission.Resource{ARN: key}})
	}
	if props.MaxReceives == 0 {
		props.MaxReceives = min(parsed.MaxTries(), maxReceives)
	}
	p := &Pipeline{Tables: props.Tables, stackName: props.stackName(scope)}
	constructs.NewConstruct_Override(p, scope, jsii.String(id))
	orElse(&props.MetricsNamespace, namespaceOf(p))
	p.MetricsNamespace = props.MetricsNamespace
	p.reserved = map[string]int{"Ingest": props.IngestConcurrency, "Process": props.ProcessConcurrency, "Publish": props.PublishConcurrency}
	p.perQueue, p.sweepEvery, p.sweepAllEvery, p.paused = props.perQueue(), props.Sweep, props.SweepAll, props.Paused
	if p.Tables == nil {
		p.Tables = NewTables(p.Construct, "Tables", &TablesProps{Unprotected: props.Unprotected, Key: props.Keys.Tables})
	}
	queues := QueuesProps{Timeout: props.Timeout, MaxReceives: props.MaxReceives, Unprotected: props.Unprotected, Key: props.Keys.Queues, BatchWindow: props.BatchWindow}
	p.Queues = NewQueues(p.Construct, "Queues", &queues)
	p.Queues.addSources(p.Construct, parsed, queues)
	p.Bucket = newBucket(p.Construct, props)
	props.Keys.admitLogs(awscdk.Stack_Of(p))
	props.Keys.admitSources(parsed)
	if err := p.newFunctions(props, destinations, handlers); err != nil {
		return nil, fmt.Errorf("make pipeline: %w", err)
	}
	p.feed("Ingress", p.Queues.Ingress, p.Process, props)
	p.feed("IngressFifo", p.Queues.IngressFIFO, p.Process, props)
	for _, n := range p.Queues.sources {
		p.feed(n.name, n.queue, p.Process, props)
	}
	p.feed("Publish", p.Queues.Publish, p.Publish, props)
	p.feed("PublishFifo", p.Queues.PublishFIFO, p.Publish, props)
	p.Sweep = p.newSweep("Sweep", "sweep", "acts on gaps", props.Sweep, props.Paused)
	p.SweepAll = p.newSweep("SweepAll", "sweep-all", "finishes what crashed workers left", props.SweepAll, props.Paused)
	p.API = newAPI(p.Construct, props, p.Ingest, newLogs(p.Construct, "Access", props))
	if props.PermissionsBoundary != nil {
		awsiam.PermissionsBoundary_Of(p).Apply(props.PermissionsBoundary)
	}
	return p, nil
}

// stackName returns the name of the stack. A stack with archives is a template, which is
// deployed under any name.
func (p *PipelineProps) stackName(scope constructs.Construct) *string {
	if p.Archives != nil {
		return awscdk.Aws_STACK_NAME()
	}
	return awscdk.Stack_Of(scope).StackName()
}

// namespaceOf returns a namespace of metrics that no other pipeline of the app has: its path,
// without the characters that CloudWatch refuses.
func namespaceOf(p *Pipeline) string {
	path := regexp.MustCompile(`[^0-9A-Za-z._/#:-]`).ReplaceAllString(*p.Node().Path(), "-")
	return path[max(len(path)-maxNamespace, 0):]
}

// newSweep makes a schedule that invokes the process function with a task. A failed invocation is
// not retried, because the next one does the same.
func (p *Pipeline) newSweep(id, task, description string, every time.Duration, paused bool) awsevents.Rule {
	return awsevents.NewRule(p.Construct, jsii.String(id), &awsevents.RuleProps{
		Description: jsii.String("once: " + description), Enabled: jsii.Bool(!paused),
		Schedule: awsevents.Schedule_Rate(awscdk.Duration_Minutes(jsii.Number(every.Minutes()))),
		Targets: &[]awsevents.IRuleTarget{awseventstargets.NewLambdaFunction(p.Process, &awseventstargets.LambdaFunctionProps{
			Event: awsevents.RuleTargetInput_FromObject(map[string]string{"once": task}), RetryAttempts: jsii.Number(0),
		})},
	})
}
