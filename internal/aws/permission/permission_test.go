package permission_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/aws/permission"
	"github.com/effectively-once/once/internal/config"
)

func allowed(t *testing.T, d config.Destination, environment map[string]string) (lines []string, err error) {
	t.Helper()
	list, err := permission.Of(d, environment)
	for _, p := range list {
		where := p.Resource.ARN
		if where == "" {
			where = p.Resource.Service + " " + p.Resource.Name
		}
		if p.Resource.Account != "" {
			where += " of " + p.Resource.Account + " in " + p.Resource.Region
		}
		lines = append(lines, p.Action+" "+where)
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
	_, err := permission.For(&config.Config{Destinations: map[string]config.Destination{
		"ledger": {File: "ledger.jsonl"}, "log": {File: "log.jsonl"}, "bus": {EventBridge: "default"},
	}}, nil)
	if err == nil || !strings.Contains(err.Error(), "destination ledger") || !strings.Contains(err.Error(), "destination log") || strings.Contains(err.Error(), "destination bus") {
		t.Errorf("got %v", err)
	}
}

func TestAHandlerNeedsThePermissionToInvokeItsFunctionOrToReadItsSecret(t *testing.T) {
	const function = "arn:aws:lambda:us-east-2:123456789012:function:orders:live"
	for name, c := range map[string]struct {
		handler config.Handler
		want    []permission.Permission
	}{
		"function":            {config.Handler{Lambda: "orders"}, []permission.Permission{{Action: "lambda:InvokeFunction", Resource: permission.Resource{Service: "lambda", Name: "function:orders"}}}},
		"alias of a function": {config.Handler{Lambda: "orders:live"}, []permission.Permission{{Action: "lambda:InvokeFunction", Resource: permission.Resource{Service: "lambda", Name: "function:orders:live"}}}},
		"ARN":                 {config.Handler{Lambda: function}, []permission.Permission{{Action: "lambda:InvokeFunction", Resource: permission.Resource{ARN: function}}}},
		"URL":                 {config.Handler{URL: "https://x"}, nil},
		"URL with a secret": {
			config.Handler{URL: "https://x", Secret: "secretsmanager:orders"},
			[]permission.Permission{{Action: "secretsmanager:GetSecretValue", Resource: permission.Resource{Service: "secretsmanager", Name: "secret:orders-??????"}}},
		},
	} {
		got, err := permission.ForHandlers(&config.Config{Handlers: map[string]config.Handler{"orders": c.handler}}, nil)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %s, %v", name, cmp.Diff(c.want, got), err)
		}
	}
}

func TestAHandlerThatADeployedSystemCanNotUseIsAnError(t *testing.T) {
	_, err := permission.ForHandlers(&config.Config{Handlers: map[string]config.Handler{
		"jobs": {Exec: "python3 jobs.py"}, "mail": {URL: "https://x", Secret: "env:SECRET"}, "orders": {Lambda: "orders"},
	}}, nil)
	for _, want := range []string{"handlers.jobs.exec: works in once dev only", "handlers.mail.secret: the functions have no variable SECRET"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err != nil && strings.Contains(err.Error(), "handlers.orders") {
		t.Errorf("got %v, want no error about the function", err)
	}
}
