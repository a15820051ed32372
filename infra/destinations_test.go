package infra

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/config"
)

// allowed returns the permissions of a destination, one a line.
func allowed(t *testing.T, d config.Destination, environment map[string]string) (lines []string, err error) {
	t.Helper()
	list, err := permissionsOf(d, environment)
	for _, p := range list {
		where := p.arn.whole
		if where == "" {
			where = p.arn.service + " " + p.arn.resource
		}
		if p.arn.account != "" {
			where += " of " + p.arn.account + " in " + p.arn.region
		}
		lines = append(lines, p.action+" "+where)
	}
	return lines, err
}

func TestADestinationNeedsThePermissionsOfItsTarget(t *testing.T) {
	const topic = "arn:aws:sns:eu-central-1:123456789012:news"
	for name, c := range map[string]struct {
		destination config.Destination
		want        []string
	}{
		"stream":        {config.Destination{Stream: "next"}, nil},
		"webhook":       {config.Destination{Webhook: "https://shop.example"}, nil},
		"queue by name": {config.Destination{SQS: "billing.fifo"}, []string{"sqs:SendMessage sqs billing.fifo", "sqs:GetQueueUrl sqs billing.fifo"}},
		"queue by URL": {
			config.Destination{SQS: "https://sqs.eu-central-1.amazonaws.com/123456789012/billing"},
			[]string{"sqs:SendMessage sqs billing of 123456789012 in eu-central-1", "sqs:GetQueueUrl sqs billing of 123456789012 in eu-central-1"},
		},
		"queue by URL in China": {
			config.Destination{SQS: "https://sqs.cn-north-1.amazonaws.com.cn/123456789012/billing.fifo"},
			[]string{"sqs:SendMessage sqs billing.fifo of 123456789012 in cn-north-1", "sqs:GetQueueUrl sqs billing.fifo of 123456789012 in cn-north-1"},
		},
		"queue by URL in GovCloud": {
			config.Destination{SQS: "https://sqs.us-gov-west-1.amazonaws.com/123456789012/billing"},
			[]string{"sqs:SendMessage sqs billing of 123456789012 in us-gov-west-1", "sqs:GetQueueUrl sqs billing of 123456789012 in us-gov-west-1"},
		},
		"topic by name": {config.Destination{SNS: "news"}, []string{"sns:Publish sns news"}},
		"topic by ARN":  {config.Destination{SNS: topic}, []string{"sns:Publish " + topic}},
		"bus":           {config.Destination{EventBridge: "orders"}, []string{"events:PutEvents events event-bus/orders"}},
		"system": {
			config.Destination{Once: "https://abc.execute-api.eu-west-1.amazonaws.com/prod", Stream: "room", Auth: "iam"},
			[]string{"execute-api:Invoke execute-api abc/*/POST/v1/streams/room/batch of * in eu-west-1"},
		},
		"system with a domain": {
			config.Destination{Once: "https://us.example", Stream: "room", Auth: "iam"},
			[]string{"execute-api:Invoke execute-api */*/POST/v1/streams/room/batch of * in *"},
		},
		"system with a key": {
			config.Destination{Once: "https://us.example", Stream: "room", Auth: "secretsmanager:us"},
			[]string{"secretsmanager:GetSecretValue secretsmanager secret:us-??????"},
		},
		"system without authorization": {config.Destination{Once: "https://us.example", Stream: "room"}, nil},
		"secret":                       {config.Destination{Webhook: "https://x", Secret: "secretsmanager:shop/hook"}, []string{"secretsmanager:GetSecretValue secretsmanager secret:shop/hook-??????"}},
		"parameter":                    {config.Destination{Webhook: "https://x", Secret: "ssm:/shop/hook"}, []string{"ssm:GetParameter ssm parameter/shop/hook"}},
	} {
		got, err := allowed(t, c.destination, nil)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %s, %v", name, cmp.Diff(c.want, got), err)
		}
	}
}

func TestAQueueGivenByURLIsInThePartitionOfTheStack(t *testing.T) {
	queue, err := queueARN("https://sqs.cn-north-1.amazonaws.com.cn/123456789012/billing")
	if err != nil {
		t.Fatal(err)
	}
	stack := awscdk.NewStack(NewApp(), jsii.String("S"), nil)
	got := asJSON(stack.Resolve(queue.in(stack)))
	if want := `{"Fn::Join":["",["arn:",{"Ref":"AWS::Partition"},":sqs:cn-north-1:123456789012:billing"]]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestADestinationThatADeployedSystemCanNotUseIsAnError(t *testing.T) {
	for want, d := range map[string]config.Destination{
		"only in the embedded system": {File: "out/ledger.jsonl"},
		"no variable SECRET":          {Webhook: "https://x", Secret: "env:SECRET"},
		"can't read a secret at":      {Webhook: "https://x", Secret: "file:secret.txt"},
		"use the ARN of the queue":    {SQS: "https://queue.example/x"},
		"sqs.REGION.amazonaws.com/A":  {SQS: "https://sqs.eu-central-1.amazonaws.com/billing"},
	} {
		if _, err := allowed(t, d, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %s", d.Target(), err, want)
		}
	}
	if _, err := allowed(t, config.Destination{Webhook: "https://x", Secret: "env:SECRET"}, map[string]string{"SECRET": "x"}); err != nil {
		t.Error(err)
	}
}

func TestTheErrorNamesEveryUnsupportedDestination(t *testing.T) {
	_, err := permissions(&config.Config{Destinations: map[string]config.Destination{
		"ledger": {File: "ledger.jsonl"}, "log": {File: "log.jsonl"}, "bus": {EventBridge: "default"},
	}}, nil)
	if err == nil || !strings.Contains(err.Error(), "destination ledger") || !strings.Contains(err.Error(), "destination log") || strings.Contains(err.Error(), "destination bus") {
		t.Errorf("got %v", err)
	}
}

func TestADirectStreamThatAStackCannotServeIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		stream string
		props  PipelineProps
		want   string
	}{
		"order of a queue":             {stream: "{direct: true}", want: "streams.orders.direct: on AWS needs order: none or admission: sequence"},
		"handlers in one program only": {stream: "{direct: true, order: none}", props: PipelineProps{ProcessFunction: "own/process"}, want: "streams.orders.direct: the ingest function processes messages itself"},
	} {
		c.props.Config = "streams:\n  orders: " + c.stream + "\n"
		if _, err := NewPipeline(NewApp(), "P", &c.props); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	own := &PipelineProps{ProcessFunction: "own/process", IngestFunction: "own/process"}
	for name, set := range map[string]bool{"handlers in both programs": true, "not direct": false} {
		c := &config.Config{Streams: map[string]config.Stream{"orders": {Direct: &set}}}
		if err := own.withDefaults().checkDirect(c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnUnreadableConfigurationIsAnErrorThatNamesTheLine(t *testing.T) {
	_, err := NewPipeline(NewApp(), "P", &PipelineProps{Config: "streams:\n  orders: {destinatoins: []}\n"})
	if err == nil || !strings.Contains(err.Error(), "once.yaml:2") {
		t.Errorf("got %v", err)
	}
}
