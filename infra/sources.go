package infra

import (
	"maps"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/effectively-once/once/internal/config"
)

// addSources makes a queue for each source of the configuration. What fails there too often goes to
// the dead-letter queues of the ingress queues, from which it is read again under its source.
func (q *Queues) addSources(scope constructs.Construct, c *config.Config, p QueuesProps) {
	q.Sources = map[string]awssqs.Queue{}
	if len(c.Ingress) == 0 {
		return
	}
	scope = constructs.NewConstruct(scope, jsii.String("Sources"))
	for _, name := range c.IngressNames() {
		source := c.Ingress[name]
		dead := q.Dead
		if source.FIFO {
			dead = q.DeadFIFO
		}
		props := workProps(dead, source.FIFO, p, p.MaxReceives)
		if source.FIFO && byContent(source.Kind()) {
			props.ContentBasedDeduplication = jsii.Bool(true)
		}
		queue := newQueue(scope, name, source.FIFO, p, props)
		if allowed := allowSource(queue, source); allowed != nil {
			queue.AddToResourcePolicy(allowed)
		}
		q.Sources[name] = queue
		q.sources = append(q.sources, namedQueue{"Ingress" + config.OutputName(name), queue})
	}
}

// byContent reports whether a kind of source sends no deduplication id, and has its identity in the
// body: then equal bodies are one message anyway. Other senders may send equal bodies with
// different attributes, of which SQS would drop all but the first.
func byContent(kind config.SourceKind) bool {
	return kind == config.SourceEventBridge || kind == config.SourceScheduler || kind == config.SourcePipes
}

// allowSource returns the statement that lets a source send to its queue. It returns nil for
// services that send with a role of this account, which needs the permission itself.
//
// The ARNs of rules and topics contain their account; that of a bucket does not, and a bucket that
// was deleted may become another account's.
func allowSource(queue awssqs.Queue, source config.Ingress) awsiam.PolicyStatement {
	stack := awscdk.Stack_Of(queue)
	arnsOr := func(service, resource string) []*string {
		if len(source.ARNs) > 0 {
			return *jsii.Strings(source.ARNs...)
		}
		return []*string{stack.FormatArn(&awscdk.ArnComponents{Service: jsii.String(service), Resource: jsii.String(resource), ArnFormat: awscdk.ArnFormat_NO_RESOURCE_NAME})}
	}
	props := awsiam.PolicyStatementProps{Sid: jsii.String("AllowSource"), Actions: jsii.Strings("sqs:SendMessage"), Resources: &[]*string{queue.QueueArn()}}
	like := func(arns []*string) map[string]any {
		return map[string]any{"ArnLike": map[string]any{"aws:SourceArn": arns}}
	}
	principal := principalOf(source)
	if principal == nil {
		return nil
	}
	var conditions map[string]any
	switch source.Kind() {
	case config.SourceEventBridge:
		conditions = like(arnsOr("events", "rule/*"))
	case config.SourceSNS:
		conditions = like(arnsOr("sns", "*"))
	case config.SourceS3:
		conditions = like(bucketARNs(stack, source.ARNs))
		conditions["StringEquals"] = map[string]any{"aws:SourceAccount": stack.Account()}
	default:
	}
	if conditions != nil {
		props.Conditions = &conditions
	}
	props.Principals = &[]awsiam.IPrincipal{principal}
	return awsiam.NewPolicyStatement(&props)
}

// principalOf returns who sends to the queue of a source, or nil for services that send with a role
// of this account.
func principalOf(source config.Ingress) awsiam.IPrincipal {
	switch source.Kind() {
	case config.SourceEventBridge:
		return service("events")
	case config.SourceSNS:
		return service("sns")
	case config.SourceS3:
		return service("s3")
	case config.SourceAccount:
		return awsiam.NewAccountPrincipal(jsii.String(string(source.From)))
	default:
		return nil
	}
}

func service(name string) awsiam.IPrincipal {
	return awsiam.NewServicePrincipal(jsii.String(name+".amazonaws.com"), nil)
}

func bucketARNs(stack awscdk.Stack, arns []string) []*string {
	if len(arns) > 0 {
		return *jsii.Strings(arns...)
	}
	return []*string{stack.FormatArn(&awscdk.ArnComponents{
		Service: jsii.String("s3"), Resource: jsii.String("*"), Region: jsii.String(""), Account: jsii.String(""), ArnFormat: awscdk.ArnFormat_NO_RESOURCE_NAME,
	})}
}

// sourceQueues returns the variable of the functions that says which queue belongs to which source.
func (q *Queues) sourceQueues() *string {
	var items []*string
	for _, name := range slices.Sorted(maps.Keys(q.Sources)) {
		items = append(items, awscdk.Fn_Join(jsii.String("="), &[]*string{jsii.String(name), q.Sources[name].QueueName()}))
	}
	return awscdk.Fn_Join(jsii.String(","), &items)
}
