package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// account holds the clients for deployed resources.
type account struct {
	stacks    *cloudformation.Client
	tables    *dynamodb.Client
	queues    *sqs.Client
	functions *lambda.Client
	buckets   *s3.Client
	alarms    *cloudwatch.Client
	logs      *cloudwatchlogs.Client
	rules     *eventbridge.Client
}

func newAccount(cfg aws.Config) *account {
	return &account{
		stacks: cloudformation.NewFromConfig(cfg), tables: dynamodb.NewFromConfig(cfg), queues: sqs.NewFromConfig(cfg), functions: lambda.NewFromConfig(cfg),
		buckets: s3.NewFromConfig(cfg), alarms: cloudwatch.NewFromConfig(cfg), logs: cloudwatchlogs.NewFromConfig(cfg), rules: eventbridge.NewFromConfig(cfg),
	}
}

// describe returns a resource with the property names of templates. It contains every property that
// the service reports, with null if it is not set. If it is nil, only existence is compared.
func (a *account) describe(ctx context.Context, kind, name string) (map[string]any, error) {
	switch kind {
	case "AWS::DynamoDB::Table":
		return a.table(ctx, name)
	case "AWS::DynamoDB::GlobalTable":
		return a.globalTable(ctx, name)
	case "AWS::SQS::Queue":
		return a.queue(ctx, name)
	case "AWS::Lambda::Function":
		return a.function(ctx, name)
	case "AWS::Lambda::EventSourceMapping":
		return a.mapping(ctx, name)
	case "AWS::S3::Bucket":
		return a.bucket(ctx, name)
	case "AWS::CloudWatch::Alarm":
		return a.alarm(ctx, name)
	case "AWS::Logs::LogGroup":
		return a.logGroup(ctx, name)
	case "AWS::Events::Rule":
		return a.rule(ctx, name)
	}
	return nil, nil
}

// listed returns tags in the form of templates.
func listed(tags map[string]string) []any {
	list := []any{}
	for key, value := range tags {
		list = append(list, map[string]any{"Key": key, "Value": value})
	}
	return list
}

func (a *account) queue(ctx context.Context, url string) (map[string]any, error) {
	out, err := a.queues.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []sqstypes.QueueAttributeName{"All"}})
	if err != nil {
		return nil, err
	}
	tags, err := a.queues.ListQueueTags(ctx, &sqs.ListQueueTagsInput{QueueUrl: &url})
	if err != nil {
		return nil, err
	}
	properties := map[string]any{"Tags": listed(tags.Tags)}
	for _, name := range sqstypes.QueueAttributeName("").Values() {
		properties[string(name)] = nil
	}
	for name, value := range out.Attributes {
		properties[name] = value
		var policy map[string]any
		if decode([]byte(value), &policy) == nil {
			properties[name] = policy
		}
	}
	return properties, nil
}

func (a *account) function(ctx context.Context, name string) (map[string]any, error) {
	out, err := a.functions.GetFunction(ctx, &lambda.GetFunctionInput{FunctionName: &name})
	if err != nil {
		return nil, err
	}
	properties, err := fields(out.Configuration)
	if err != nil {
		return nil, err
	}
	properties["Tags"] = listed(out.Tags)
	properties["ReservedConcurrentExecutions"] = nil
	if out.Concurrency != nil {
		properties["ReservedConcurrentExecutions"] = fmt.Sprint(aws.ToInt32(out.Concurrency.ReservedConcurrentExecutions))
	}
	return properties, nil
}

func (a *account) mapping(ctx context.Context, id string) (map[string]any, error) {
	out, err := a.functions.GetEventSourceMapping(ctx, &lambda.GetEventSourceMappingInput{UUID: &id})
	if err != nil {
		return nil, err
	}
	properties, err := fields(out)
	if err != nil {
		return nil, err
	}
	properties["FunctionName"] = properties["FunctionArn"]
	properties["Enabled"] = aws.ToString(out.State) != "Disabled"
	return properties, nil
}

// fields returns a structure of the SDK by its field names, which nearly always equal those of
// templates.
func fields(of any) (map[string]any, error) {
	data, err := json.Marshal(of)
	if err != nil {
		return nil, fmt.Errorf("encode description: %w", err)
	}
	var properties map[string]any
	err = decode(data, &properties)
	return properties, err
}
