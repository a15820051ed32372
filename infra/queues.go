package infra

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

const (
	// maxMessage is the most that SQS takes: a body of 256 KiB may be sent as base64, with attributes.
	maxMessage = 1 << 20
	// queueDays is the longest that SQS keeps a message. A standard queue's dead letters keep their age.
	queueDays = 14
	// publishReceives is the most that SQS counts to: a trigger may wait for its destination as long as that takes, and the sweep sends another one.
	publishReceives = 1000
)

// QueuesProps say how queues deliver.
type QueuesProps struct {
	// Timeout of the functions behind the queues: messages that fail come again after six times as long. Defaults to 30 s.
	Timeout time.Duration
	// MaxReceives of a message on an ingress queue, before it goes to the dead-letter queue without a reason. Defaults to 100.
	MaxReceives int
}

// Queues are the ways of messages through the system. Each kind has a first-in-first-out queue and a standard one, with a dead-letter queue of its own kind as SQS demands.
type Queues struct {
	Ingress, IngressFIFO         awssqs.Queue // messages
	Publish, PublishFIFO         awssqs.Queue // triggers: delayed ones, and the others
	Dead, DeadFIFO               awssqs.Queue // messages: refused ones in Dead, and those that their queue gave up
	DeadPublish, DeadPublishFIFO awssqs.Queue // effects and triggers, likewise
}

// NewQueues makes the queues. Nil props are the defaults.
func NewQueues(scope constructs.Construct, id string, props *QueuesProps) *Queues {
	p := QueuesProps{}
	if props != nil {
		p = *props
	}
	if p.Timeout == 0 {
		p.Timeout = 30 * time.Second
	}
	if p.MaxReceives == 0 {
		p.MaxReceives = 100
	}
	scope = constructs.NewConstruct(scope, jsii.String(id))
	q := &Queues{}
	q.Ingress, q.Dead = newPair(scope, "Ingress", false, p.Timeout, p.MaxReceives)
	q.IngressFIFO, q.DeadFIFO = newPair(scope, "IngressFifo", true, p.Timeout, p.MaxReceives)
	q.Publish, q.DeadPublish = newPair(scope, "Publish", false, p.Timeout, publishReceives)
	q.PublishFIFO, q.DeadPublishFIFO = newPair(scope, "PublishFifo", true, p.Timeout, publishReceives)
	return q
}

// newPair makes a queue and its dead-letter queue.
func newPair(scope constructs.Construct, id string, fifo bool, timeout time.Duration, receives int) (work, dead awssqs.Queue) {
	dead = newQueue(scope, id+"Dead", fifo, awssqs.QueueProps{})
	work = newQueue(scope, id, fifo, awssqs.QueueProps{
		VisibilityTimeout: awscdk.Duration_Seconds(jsii.Number(6 * timeout.Seconds())),
		DeadLetterQueue:   &awssqs.DeadLetterQueue{Queue: dead, MaxReceiveCount: jsii.Number(float64(receives))},
	})
	return work, dead
}

func newQueue(scope constructs.Construct, id string, fifo bool, props awssqs.QueueProps) awssqs.Queue {
	props.RetentionPeriod = awscdk.Duration_Days(jsii.Number(queueDays))
	props.Encryption = awssqs.QueueEncryption_SQS_MANAGED
	props.MaxMessageSizeBytes = jsii.Number(maxMessage)
	if fifo {
		props.Fifo = jsii.Bool(true)
		props.DeduplicationScope = awssqs.DeduplicationScope_MESSAGE_GROUP // both are needed for high throughput
		props.FifoThroughputLimit = awssqs.FifoThroughputLimit_PER_MESSAGE_GROUP_ID
	}
	q := awssqs.NewQueue(scope, jsii.String(id), &props)
	q.AddToResourcePolicy(denyPlaintext(q.QueueArn(), nil, "sqs:SendMessage", "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:PurgeQueue"))
	return q
}

// denyPlaintext refuses requests without TLS. The CDK's own enforceSSL says the same with a wildcard.
func denyPlaintext(resource, further *string, actions ...string) awsiam.PolicyStatement {
	resources := []*string{resource}
	if further != nil {
		resources = append(resources, further)
	}
	return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("DenyPlaintext"), Effect: awsiam.Effect_DENY, Principals: &[]awsiam.IPrincipal{awsiam.NewAnyPrincipal()},
		Actions: jsii.Strings(actions...), Resources: &resources,
		Conditions: &map[string]any{"Bool": map[string]any{"aws:SecureTransport": "false"}},
	})
}

// all gives the working queues, then the dead-letter queues, by the names of their outputs.
func (q *Queues) all() (work, dead []namedQueue) {
	return []namedQueue{{"Ingress", q.Ingress}, {"IngressFifo", q.IngressFIFO}, {"Publish", q.Publish}, {"PublishFifo", q.PublishFIFO}},
		[]namedQueue{{"Dead", q.Dead}, {"DeadFifo", q.DeadFIFO}, {"DeadPublish", q.DeadPublish}, {"DeadPublishFifo", q.DeadPublishFIFO}}
}

type namedQueue struct {
	name  string
	queue awssqs.Queue
}

// grantSend lets a function put messages, triggers and dead letters where they belong. Every function may do all of it: what one has begun, another finishes.
func (q *Queues) grantSend(grantee awsiam.IGrantable) {
	for _, queue := range []awssqs.Queue{q.Ingress, q.IngressFIFO, q.Publish, q.PublishFIFO, q.Dead, q.DeadPublish} {
		queue.Grant(grantee, jsii.String("sqs:SendMessage"))
	}
}

// grantReceive lets the event source mapping of a function take messages off a queue.
func grantReceive(queue awssqs.Queue, grantee awsiam.IGrantable) {
	queue.Grant(grantee, *jsii.Strings("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes")...)
}

// grantRedrive lets a function take dead letters off their queues, and give back those that stay. To put them back it needs grantSend.
func grantRedrive(grantee awsiam.IGrantable, dead ...awssqs.Queue) {
	for _, queue := range dead {
		queue.Grant(grantee, *jsii.Strings("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility")...)
	}
}
