package infra

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseventstargets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/effectively-once/once/internal/config"
)

// ingestTimeout is what API Gateway waits for at most.
const ingestTimeout = 29 * time.Second

// PipelineProps say what a pipeline is made of. Config and Assets, or the three functions, are required.
type PipelineProps struct {
	// Config is the text of once.yaml: streams and destinations. The functions get the permissions that its destinations need.
	Config string
	// Assets is a folder with the folders ingest, process and publish, each with a file bootstrap.
	Assets string
	// ProcessFunction is a folder with a bootstrap of your own, with handlers in Go. Handlers of one-time requests are needed in IngestFunction too, which runs them.
	// Each defaults to its folder in Assets.
	IngestFunction, ProcessFunction, PublishFunction string
	// Architecture defaults to arm64.
	Architecture Architecture
	// Memory of each function, in MB. Defaults to 512.
	Memory int
	// Timeout of the process and publish functions. Defaults to 30 s.
	Timeout time.Duration
	// MaxConcurrency of each queue. Defaults to 50.
	MaxConcurrency int
	// ReservedConcurrency of each function, at least 2·MaxConcurrency + 1. Defaults to none.
	ReservedConcurrency int
	// MaxReceives of a message on an ingress queue. Defaults to 100.
	MaxReceives int
	// Sweep is the time between two looks at groups that have messages held. Defaults to 1 minute.
	Sweep time.Duration
	// SweepAll is the time between two looks at all groups, which finish whatever crashed workers left. Each looks as long as Timeout allows, and begins elsewhere. Defaults to 1 hour.
	SweepAll time.Duration
	// MetricsNamespace is where the functions count in CloudWatch. Defaults to Once; two systems in one account and region want two.
	MetricsNamespace string
	// Paused takes messages in and processes none. Defaults to false.
	Paused bool
	// Environment has further variables of the functions.
	Environment map[string]string
	// KMSKeys are the ARNs of customer-managed keys that destinations and secrets are encrypted with. Defaults to none.
	KMSKeys []string
	// LogRetentionDays defaults to 30.
	LogRetentionDays int
	// API defaults to an HTTP API with IAM.
	API APISettings
	// Tables default to new ones.
	Tables *Tables
	// Unprotected lets tables and bucket be deleted with the stack. Defaults to false.
	Unprotected bool
	// Emulator trusts the account as sender of messages.
	Emulator bool
}

func (p *PipelineProps) withDefaults() *PipelineProps {
	d, out := defaults(), *p
	orElse(&out.Architecture, d.Architecture)
	orElse(&out.Memory, d.Memory)
	orElse(&out.Timeout, d.Timeout)
	orElse(&out.MaxConcurrency, d.MaxConcurrency)
	orElse(&out.MaxReceives, d.MaxReceives)
	orElse(&out.Sweep, d.Sweep)
	orElse(&out.SweepAll, d.SweepAll)
	orElse(&out.MetricsNamespace, "Once")
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

func orElse[T comparable](value *T, otherwise T) {
	var zero T
	if *value == zero {
		*value = otherwise
	}
}

// A Pipeline takes messages in over HTTP and SQS, processes each one time, and sends its effects.
type Pipeline struct {
	Tables *Tables
	Queues *Queues
	Bucket awss3.Bucket
	API    *API
	// Sweep and SweepAll are the schedules of the sweeps.
	Sweep, SweepAll awsevents.Rule
	// MetricsNamespace is where the functions count.
	MetricsNamespace string

	Ingest, Process, Publish awslambda.Function

	scope   constructs.Construct
	trusted []*string
}

// NewPipeline makes a pipeline. The errors are those of the configuration, of props that do not fit together, and of the bootstraps, before anything is made of them.
func NewPipeline(scope constructs.Construct, id string, props *PipelineProps) (*Pipeline, error) {
	if props == nil {
		return nil, errors.New("make pipeline: no props")
	}
	props = props.withDefaults()
	parsed, err := config.Parse(configFile, []byte(props.Config))
	if err != nil {
		return nil, fmt.Errorf("make pipeline: %w", err)
	}
	destinations, err := permissions(parsed, props.Environment)
	if err := errors.Join(err, checkReserved(props.ReservedConcurrency, props.MaxConcurrency), props.API.check()); err != nil {
		return nil, fmt.Errorf("make pipeline: %w", err)
	}
	for _, key := range props.KMSKeys {
		destinations = append(destinations, permission{"kms:Decrypt", arn{whole: key}}, permission{"kms:GenerateDataKey", arn{whole: key}})
	}
	p := &Pipeline{scope: constructs.NewConstruct(scope, jsii.String(id)), Tables: props.Tables, MetricsNamespace: props.MetricsNamespace}
	if p.Tables == nil {
		p.Tables = NewTables(p.scope, "Tables", &TablesProps{Unprotected: props.Unprotected})
	}
	p.Queues = NewQueues(p.scope, "Queues", &QueuesProps{Timeout: props.Timeout, MaxReceives: props.MaxReceives})
	p.Bucket = newBucket(p.scope, props.Unprotected)
	if err := p.newFunctions(props, destinations); err != nil {
		return nil, fmt.Errorf("make pipeline: %w", err)
	}
	p.feed("Ingress", p.Queues.Ingress, p.Process, props)
	p.feed("IngressFifo", p.Queues.IngressFIFO, p.Process, props)
	p.feed("Publish", p.Queues.Publish, p.Publish, props)
	p.feed("PublishFifo", p.Queues.PublishFIFO, p.Publish, props)
	p.Sweep = p.newSweep("Sweep", "sweep", "acts on gaps", props.Sweep, props.Paused)
	p.SweepAll = p.newSweep("SweepAll", "sweep-all", "finishes what crashed workers left", props.SweepAll, props.Paused)
	p.API = newAPI(p.scope, props.API, p.Ingest, newLogs(p.scope, "Access", props.LogRetentionDays))
	return p, nil
}

// newSweep gives the process function a task from time to time. One that can't be given is not repeated: the next does the same.
func (p *Pipeline) newSweep(id, task, description string, every time.Duration, paused bool) awsevents.Rule {
	return awsevents.NewRule(p.scope, jsii.String(id), &awsevents.RuleProps{
		Description: jsii.String("once: " + description), Enabled: jsii.Bool(!paused),
		Schedule: awsevents.Schedule_Rate(awscdk.Duration_Minutes(jsii.Number(every.Minutes()))),
		Targets: &[]awsevents.IRuleTarget{awseventstargets.NewLambdaFunction(p.Process, &awseventstargets.LambdaFunctionProps{
			Event: awsevents.RuleTargetInput_FromObject(map[string]string{"once": task}), RetryAttempts: jsii.Number(0),
		})},
	})
}
