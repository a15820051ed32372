package infra

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/effectively-once/once/internal/aws/permission"
)

// configFile is the path of the configuration in a function's package. An environment variable is
// too small: all together are limited to 4 KB.
const configFile = "once.yaml"

// function holds the differences between the functions.
type function struct {
	id, asset   string
	description string
	timeout     time.Duration
	concurrency int
	role        awsiam.Role
	logs        awslogs.LogGroup
}

// newFunctions makes the roles before the functions, because the functions trust one another by the
// ids of their roles.
func (p *Pipeline) newFunctions(props *PipelineProps, destinations, handlers []permission.Permission) error {
	ingest := function{id: "Ingest", asset: props.IngestFunction, description: "once: takes messages in over HTTP", timeout: ingestTimeout, concurrency: props.IngestConcurrency}
	process := function{id: "Process", asset: props.ProcessFunction, description: "once: processes messages", timeout: props.Timeout, concurrency: props.ProcessConcurrency}
	publish := function{id: "Publish", asset: props.PublishFunction, description: "once: sends effects", timeout: props.Timeout, concurrency: props.PublishConcurrency}
	for _, f := range []*function{&ingest, &process, &publish} {
		f.logs = newLogs(p.Construct, f.id, props)
		f.role = awsiam.NewRole(p.Construct, jsii.String(f.id+"Role"), &awsiam.RoleProps{AssumedBy: awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil)})
		p.trusted = append(p.trusted, f.role.RoleId())
		f.logs.GrantWrite(f.role)
		p.Tables.GrantUse(f.role)
		p.Queues.grantSend(f.role)
		grantObjects(p.Bucket, f.role)
		props.Keys.grantUse(f.role)
		grant(p.Construct, destinations, f.role)
	}
	// Ingest runs the handlers of one-time requests and of direct streams.
	for _, runs := range []function{ingest, process} {
		p.grantHandlers(props, handlers, runs.role)
	}
	if props.Emulator {
		p.trusted = append(p.trusted, awscdk.Aws_ACCOUNT_ID())
	}
	var errs [3]error
	p.Ingest, errs[0] = p.newFunction(ingest, props)
	p.Process, errs[1] = p.newFunction(process, props)
	p.Publish, errs[2] = p.newFunction(publish, props)
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	// A new version may accept what an old one can't read: the functions behind the queues come
	// first.
	ingests := p.Ingest.Node().DefaultChild().(awslambda.CfnFunction)
	for _, behind := range []awslambda.Function{p.Process, p.Publish} {
		ingests.AddDependency(behind.Node().DefaultChild().(awslambda.CfnFunction))
	}
	// Only schedules invoke it asynchronously. A failed task is not retried: the next one follows
	// soon, and one failure is one alarm. For the same reason a throttled one does not wait for the
	// six hours of Lambda's default, after which hundreds of sweeps would run.
	p.Process.ConfigureAsyncInvoke(&awslambda.EventInvokeConfigOptions{RetryAttempts: jsii.Number(0), MaxEventAge: fiveMinutes()})
	p.Tables.GrantSweep(p.Process) // a sweep runs held messages, so it needs the handlers
	grantRedrive(p.Process, p.Queues.Dead, p.Queues.DeadFIFO)
	grantRedrive(p.Publish, p.Queues.DeadPublish, p.Queues.DeadPublishFIFO)
	return nil
}

func newLogs(scope constructs.Construct, id string, props *PipelineProps) awslogs.LogGroup {
	return awslogs.NewLogGroup(scope, jsii.String(id+"Logs"), &awslogs.LogGroupProps{
		Retention: retention(props.LogRetentionDays), RemovalPolicy: removal(props.Unprotected), EncryptionKey: props.Keys.Logs,
	})
}

func (p *Pipeline) newFunction(f function, props *PipelineProps) (awslambda.Function, error) {
	code, folder, err := codeOf(f, props)
	if err != nil {
		return nil, fmt.Errorf("function %s: %w", f.id, err)
	}
	defer os.RemoveAll(folder) //nolint:errcheck // the CDK has copied it; a folder that is left over in the temporary folder harms nobody
	function := &awslambda.FunctionProps{
		Description: jsii.String(f.description),
		Runtime:     awslambda.Runtime_PROVIDED_AL2023(), Handler: jsii.String("bootstrap"), Architecture: architecture(props.Architecture),
		Code: code, Role: f.role, LogGroup: f.logs, LoggingFormat: awslambda.LoggingFormat_JSON,
		MemorySize: jsii.Number(float64(props.Memory)), Timeout: awscdk.Duration_Seconds(jsii.Number(f.timeout.Seconds())),
		ReservedConcurrentExecutions: reserved(f.concurrency),
		Environment:                  p.environment(props), EnvironmentEncryption: props.Keys.Environment,
		// Messages return to their queues on purpose: those that are too far ahead, and those that
		// streams send to streams. Lambda would detect that as a loop and stop it.
		RecursiveLoop: awslambda.RecursiveLoop_ALLOW,
	}
	if props.Archives != nil {
		function.Architecture = props.Archives.architecture()
	}
	if len(props.Layers) > 0 {
		function.Layers = &props.Layers
	}
	if props.Tracing {
		function.Tracing = awslambda.Tracing_ACTIVE
	}
	props.Network.apply(function, f.role)
	return awslambda.NewFunction(p.Construct, jsii.String(f.id), function), nil
}

// codeOf returns the program of a function: its archive, or a folder with the configuration, which
// the caller removes after the CDK has copied it.
func codeOf(f function, props *PipelineProps) (code awslambda.Code, folder string, err error) {
	if props.Archives != nil {
		return props.Archives.code(f.id), "", nil
	}
	if folder, err = stage(f.asset, props); err != nil {
		return nil, "", err
	}
	return awslambda.Code_FromAsset(jsii.String(folder), nil), folder, nil
}

// environment returns the variables for internal/system/function, and the user's.
func (p *Pipeline) environment(props *PipelineProps) *map[string]*string {
	config := jsii.String(configFile)
	if props.Archives != nil {
		config = props.Archives.Config
	}
	out := map[string]*string{}
	for name, value := range props.Environment {
		out[name] = jsii.String(value)
	}
	maps.Copy(out, map[string]*string{
		"ONCE_CONFIG":                      config,
		"ONCE_GROUPS_TABLE":                p.Tables.Groups.TableName(),
		"ONCE_TOKENS_TABLE":                p.Tables.Tokens.TableName(),
		"ONCE_BUCKET":                      p.Bucket.BucketName(),
		"ONCE_INGRESS_QUEUE_URL":           p.Queues.Ingress.QueueUrl(),
		"ONCE_INGRESS_FIFO_QUEUE_URL":      p.Queues.IngressFIFO.QueueUrl(),
		"ONCE_PUBLISH_QUEUE_URL":           p.Queues.Publish.QueueUrl(),
		"ONCE_PUBLISH_FIFO_QUEUE_URL":      p.Queues.PublishFIFO.QueueUrl(),
		"ONCE_METRICS_NAMESPACE":           jsii.String(props.MetricsNamespace),
		"ONCE_DEAD_QUEUE_URL":              p.Queues.Dead.QueueUrl(),
		"ONCE_DEAD_FIFO_QUEUE_URL":         p.Queues.DeadFIFO.QueueUrl(),
		"ONCE_DEAD_PUBLISH_QUEUE_URL":      p.Queues.DeadPublish.QueueUrl(),
		"ONCE_DEAD_PUBLISH_FIFO_QUEUE_URL": p.Queues.DeadPublishFIFO.QueueUrl(),
		"ONCE_TRUSTED_SENDERS":             awscdk.Fn_Join(jsii.String(","), &p.trusted),
	})
	if len(props.Handlers) > 0 {
		out["ONCE_HANDLERS"] = props.handlerFunctions()
	}
	if len(p.Queues.Sources) > 0 {
		out["ONCE_SOURCE_QUEUES"] = p.Queues.sourceQueues()
	}
	return &out
}

// feed connects a queue to a function. Lambda has neither windows nor larger batches for
// first-in-first-out queues.
func (p *Pipeline) feed(id string, from awssqs.Queue, to awslambda.Function, props *PipelineProps) {
	grantReceive(from, to)
	mapping := &awslambda.EventSourceMappingProps{
		Target: to, EventSourceArn: from.QueueArn(), BatchSize: jsii.Number(float64(min(props.BatchSize, fifoBatch))), ReportBatchItemFailures: jsii.Bool(true),
		Enabled: jsii.Bool(!props.Paused),
	}
	if !*from.Fifo() {
		mapping.BatchSize = jsii.Number(float64(props.BatchSize))
		if props.BatchWindow > 0 {
			mapping.MaxBatchingWindow = awscdk.Duration_Seconds(jsii.Number(props.BatchWindow.Seconds()))
		}
	}
	if props.Pollers != nil {
		mapping.ProvisionedPollerConfig = &awslambda.ProvisionedPollerConfig{
			MinimumPollers: jsii.Number(float64(props.Pollers.Min)), MaximumPollers: jsii.Number(float64(props.Pollers.Max)),
		}
	} else {
		mapping.MaxConcurrency = jsii.Number(float64(props.MaxConcurrency))
	}
	awslambda.NewEventSourceMapping(p.Construct, jsii.String(id+"Mapping"), mapping)
}

func architecture(a Architecture) awslambda.Architecture {
	if a == AMD64 {
		return awslambda.Architecture_X86_64()
	}
	return awslambda.Architecture_ARM_64()
}

func reserved(n int) *float64 {
	if n == 0 {
		return nil
	}
	return jsii.Number(float64(n))
}

// retention returns the CDK's constant for a number of days, or an empty string if CloudWatch does
// not support it.
func retention(days int) awslogs.RetentionDays {
	return map[int]awslogs.RetentionDays{
		1: awslogs.RetentionDays_ONE_DAY, 3: awslogs.RetentionDays_THREE_DAYS, 5: awslogs.RetentionDays_FIVE_DAYS, 7: awslogs.RetentionDays_ONE_WEEK,
		14: awslogs.RetentionDays_TWO_WEEKS, 30: awslogs.RetentionDays_ONE_MONTH, 60: awslogs.RetentionDays_TWO_MONTHS, 90: awslogs.RetentionDays_THREE_MONTHS,
		120: awslogs.RetentionDays_FOUR_MONTHS, 150: awslogs.RetentionDays_FIVE_MONTHS, 180: awslogs.RetentionDays_SIX_MONTHS, 365: awslogs.RetentionDays_ONE_YEAR,
		400: awslogs.RetentionDays_THIRTEEN_MONTHS, 545: awslogs.RetentionDays_EIGHTEEN_MONTHS, 731: awslogs.RetentionDays_TWO_YEARS,
		1096: awslogs.RetentionDays_THREE_YEARS, 1827: awslogs.RetentionDays_FIVE_YEARS, 2192: awslogs.RetentionDays_SIX_YEARS,
		2557: awslogs.RetentionDays_SEVEN_YEARS, 2922: awslogs.RetentionDays_EIGHT_YEARS, 3288: awslogs.RetentionDays_NINE_YEARS, 3653: awslogs.RetentionDays_TEN_YEARS,
	}[days]
}
