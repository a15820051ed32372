package infra

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

const (
	// maxMessage is the largest size that SQS allows. A body that does not fit is kept in the
	// bucket.
	maxMessage = 1 << 20
	// queueDays is the longest time that SQS keeps a message. In a standard queue, a dead letter's
	// age includes its time in the first queue.
	queueDays = 14
	// maxReceives is the largest receive count that SQS supports.
	maxReceives = 1000
	// publishReceives is the same: a trigger may wait that long for its destination. After that,
	// the sweep sends another one.
	publishReceives = 1000
)

// QueuesProps configure queues.
type QueuesProps struct {
	// Timeout of the functions behind the queues: failed messages are redelivered after six times
	// this. Defaults to 30 s.
	Timeout time.Duration
	// MaxReceives is how often a message on an ingress queue is received before the queue
	// dead-letters it without a reason. Defaults to 1000, the maximum of SQS.
	MaxReceives int
	// Unprotected deletes the queues, with their messages, with the stack. Defaults to false.
	Unprotected bool
	// Key encrypts the messages. Defaults to a key that SQS manages.
	Key awskms.IKey
	// BatchWindow is how long messages of a standard queue are collected for an invocation. They
	// are hidden for as long in addition.
	BatchWindow time.Duration
}

// Queues are the queues of the system. For each purpose there is a first-in-first-out queue and a
// standard one, with a dead-letter queue of the same kind as SQS requires.
type Queues struct {
	Ingress, IngressFIFO awssqs.Queue // messages
	Publish, PublishFIFO awssqs.Queue // triggers: delayed ones, and the others
	// messages: refused ones in Dead, and those that exceeded the receive count
	Dead, DeadFIFO               awssqs.Queue
	DeadPublish, DeadPublishFIFO awssqs.Queue // effects and triggers, with the same rule
	// Sources are the queues of the sources of the configuration, by their names. Add them as
	// targets of rules, notifications, subscriptions and schedules; see docs/sqs.md.
	Sources map[string]awssqs.Queue

	sources []namedQueue // the same, sorted, with the names of their outputs
}

func (p *QueuesProps) withDefaults() QueuesProps {
	out := QueuesProps{}
	if p != nil {
		out = *p
	}
	orElse(&out.Timeout, 30*time.Second)
	orElse(&out.MaxReceives, maxReceives)
	return out
}

// NewQueues returns the queues. If props is nil, the defaults apply.
func NewQueues(scope constructs.Construct, id string, props *QueuesProps) *Queues {
	p := props.withDefaults()
	scope = constructs.NewConstruct(scope, jsii.String(id))
	q := &Queues{}
	q.Ingress, q.Dead = newPair(scope, "Ingress", false, p, p.MaxReceives)
	q.IngressFIFO, q.DeadFIFO = newPair(scope, "IngressFifo", true, p, p.MaxReceives)
	q.Publish, q.DeadPublish = newPair(scope, "Publish", false, p, publishReceives)
	q.PublishFIFO, q.DeadPublishFIFO = newPair(scope, "PublishFifo", true, p, publishReceives)
	return q
}

// newPair makes a queue and its dead-letter queue.
func newPair(scope constructs.Construct, id string, fifo bool, p QueuesProps, receives int) (work, dead awssqs.Queue) {
	dead = newQueue(scope, id+"Dead", fifo, p, awssqs.QueueProps{})
	return newQueue(scope, id, fifo, p, workProps(dead, fifo, p, receives)), dead
}

func workProps(dead awssqs.Queue, fifo bool, p QueuesProps, receives int) awssqs.QueueProps {
	visibility := 6 * p.Timeout
	if !fifo {
		visibility += p.BatchWindow
	}
	return awssqs.QueueProps{
		VisibilityTimeout: awscdk.Duration_Seconds(jsii.Number(visibility.Seconds())),
		DeadLetterQueue:   &awssqs.DeadLetterQueue{Queue: dead, MaxReceiveCount: jsii.Number(float64(receives))},
	}
}

func newQueue(scope constructs.Construct, id string, fifo bool, p QueuesProps, props awssqs.QueueProps) awssqs.Queue {
	props.RemovalPolicy = removal(p.Unprotected)
	props.RetentionPeriod = awscdk.Duration_Days(jsii.Number(queueDays))
	props.Encryption = awssqs.QueueEncryption_SQS_MANAGED
	if p.Key != nil {
		props.Encryption, props.EncryptionMasterKey = awssqs.QueueEncryption_KMS, p.Key
	}
	props.MaxMessageSizeBytes = jsii.Number(maxMessage)
	if fifo {
		props.Fifo = jsii.Bool(true)
		// both are needed for high throughput
		props.DeduplicationScope = awssqs.DeduplicationScope_MESSAGE_GROUP
		props.FifoThroughputLimit = awssqs.FifoThroughputLimit_PER_MESSAGE_GROUP_ID
	}
	q := awssqs.NewQueue(scope, jsii.String(id), &props)
	q.AddToResourcePolicy(denyPlaintext("sqs:*", q.QueueArn()))
	return q
}

// denyPlaintext refuses all requests of a service without TLS.
func denyPlaintext(actions string, resources ...*string) awsiam.PolicyStatement {
	return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("DenyPlaintext"), Effect: awsiam.Effect_DENY, Principals: &[]awsiam.IPrincipal{awsiam.NewAnyPrincipal()},
		Actions: jsii.Strings(actions), Resources: &resources,
		Conditions: &map[string]any{"Bool": map[string]any{"aws:SecureTransport": "false"}},
	})
}

// all returns the working queues, then the dead-letter queues, with the names of their outputs.
func (q *Queues) all() (work, dead []namedQueue) {
	return append([]namedQueue{{"Ingress", q.Ingress}, {"IngressFifo", q.IngressFIFO}, {"Publish", q.Publish}, {"PublishFifo", q.PublishFIFO}}, q.sources...),
		[]namedQueue{{"Dead", q.Dead}, {"DeadFifo", q.DeadFIFO}, {"DeadPublish", q.DeadPublish}, {"DeadPublishFifo", q.DeadPublishFIFO}}
}

type namedQueue struct {
	name  string
	queue awssqs.Queue
}

// grantSend allows a function to send messages, triggers and dead letters. Every function may send
// all of them, because a function may finish the work of another.
func (q *Queues) grantSend(grantee awsiam.IGrantable) {
	for _, queue := range []awssqs.Queue{q.Ingress, q.IngressFIFO, q.Publish, q.PublishFIFO, q.Dead, q.DeadPublish} {
		queue.Grant(grantee, jsii.String("sqs:SendMessage"))
	}
}

// grantReceive allows the event source mapping of a function to receive from a queue, and the
// function to hide the messages that it retries until their next try.
func grantReceive(queue awssqs.Queue, grantee awsiam.IGrantable) {
	queue.Grant(grantee, *jsii.Strings("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility", "sqs:GetQueueAttributes")...)
}

// grantRedrive allows a function to receive dead letters, and to return those that stay. To redrive
// them it also needs grantSend.
func grantRedrive(grantee awsiam.IGrantable, dead ...awssqs.Queue) {
	for _, queue := range dead {
		queue.Grant(grantee, *jsii.Strings("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility")...)
	}
}
