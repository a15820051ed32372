package infra

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/config"
)

// allowed lists the permissions of a destination, one a line.
func allowed(t *testing.T, d config.Destination, environment map[string]string) (lines []string, err error) {
	t.Helper()
	list, err := permissionsOf(d, environment)
	for _, p := range list {
		where := p.arn.whole
		if where == "" {
			where = p.arn.service + " " + p.arn.resource
		}
		lines = append(lines, p.action+" "+where)
	}
	return lines, err
}

func TestADestinationNeedsThePermissionsOfItsPlace(t *testing.T) {
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
			[]string{"sqs:SendMessage arn:aws:sqs:eu-central-1:123456789012:billing", "sqs:GetQueueUrl arn:aws:sqs:eu-central-1:123456789012:billing"},
		},
		"topic by name": {config.Destination{SNS: "news"}, []string{"sns:Publish sns news"}},
		"topic by ARN":  {config.Destination{SNS: topic}, []string{"sns:Publish " + topic}},
		"bus":           {config.Destination{EventBridge: "orders"}, []string{"events:PutEvents events event-bus/orders"}},
		"secret":        {config.Destination{Webhook: "https://x", Secret: "secretsmanager:shop/hook"}, []string{"secretsmanager:GetSecretValue secretsmanager secret:shop/hook-??????"}},
		"parameter":     {config.Destination{Webhook: "https://x", Secret: "ssm:/shop/hook"}, []string{"ssm:GetParameter ssm parameter/shop/hook"}},
	} {
		got, err := allowed(t, c.destination, nil)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %s, %v", name, cmp.Diff(c.want, got), err)
		}
	}
}

func TestADestinationThatADeployedSystemCanNotServeIsAnError(t *testing.T) {
	for want, d := range map[string]config.Destination{
		"one process":                {File: "out/ledger.jsonl"},
		"no variable SECRET":         {Webhook: "https://x", Secret: "env:SECRET"},
		"can't read a secret at":     {Webhook: "https://x", Secret: "file:secret.txt"},
		"give the queue's ARN":       {SQS: "https://queue.example/x"},
		"sqs.REGION.amazonaws.com/A": {SQS: "https://sqs.eu-central-1.amazonaws.com/billing"},
	} {
		if _, err := allowed(t, d, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %s", d.Target(), err, want)
		}
	}
	if _, err := allowed(t, config.Destination{Webhook: "https://x", Secret: "env:SECRET"}, map[string]string{"SECRET": "x"}); err != nil {
		t.Error(err)
	}
}

func TestEveryDestinationThatCanNotBeServedIsNamed(t *testing.T) {
	_, err := permissions(&config.Config{Destinations: map[string]config.Destination{
		"ledger": {File: "ledger.jsonl"}, "log": {File: "log.jsonl"}, "bus": {EventBridge: "default"},
	}}, nil)
	if err == nil || !strings.Contains(err.Error(), "destination ledger") || !strings.Contains(err.Error(), "destination log") || strings.Contains(err.Error(), "destination bus") {
		t.Errorf("got %v", err)
	}
}

func TestAnUnreadableConfigurationIsAnErrorThatNamesTheLine(t *testing.T) {
	_, err := NewPipeline(NewApp(), "P", &PipelineProps{Config: "streams:\n  orders: {destinatoins: []}\n"})
	if err == nil || !strings.Contains(err.Error(), "once.yaml:2") {
		t.Errorf("got %v", err)
	}
}
