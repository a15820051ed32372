package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
)

func (a *account) alarm(ctx context.Context, name string) (map[string]any, error) {
	out, err := a.alarms.DescribeAlarms(ctx, &cloudwatch.DescribeAlarmsInput{AlarmNames: []string{name}})
	if err != nil {
		return nil, err
	}
	if len(out.MetricAlarms) != 1 {
		return nil, fmt.Errorf("find alarm %s: there are %d", name, len(out.MetricAlarms))
	}
	return fields(out.MetricAlarms[0])
}

func (a *account) logGroup(ctx context.Context, name string) (map[string]any, error) {
	out, err := a.logs.DescribeLogGroups(ctx, &cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: &name})
	if err != nil {
		return nil, err
	}
	for _, group := range out.LogGroups {
		if aws.ToString(group.LogGroupName) == name {
			return fields(group)
		}
	}
	return nil, fmt.Errorf("find log group %s: there is none", name)
}

func (a *account) rule(ctx context.Context, name string) (map[string]any, error) {
	described, err := a.rules.DescribeRule(ctx, &eventbridge.DescribeRuleInput{Name: &name})
	if err != nil {
		return nil, err
	}
	properties, err := fields(described)
	if err != nil {
		return nil, err
	}
	targets, err := a.rules.ListTargetsByRule(ctx, &eventbridge.ListTargetsByRuleInput{Rule: &name})
	if err != nil {
		return nil, err
	}
	listed, err := fields(targets)
	properties["Targets"] = listed["Targets"]
	return properties, err
}

// bucket gives what keeps a bucket safe and small. What isn't set is an error of S3, not an empty answer.
func (a *account) bucket(ctx context.Context, name string) (map[string]any, error) {
	lifecycle, err := a.buckets.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: &name})
	if lifecycle, err = set(lifecycle, err); err != nil {
		return nil, err
	}
	encryption, err := a.buckets.GetBucketEncryption(ctx, &s3.GetBucketEncryptionInput{Bucket: &name})
	if encryption, err = set(encryption, err); err != nil {
		return nil, err
	}
	access, err := a.buckets.GetPublicAccessBlock(ctx, &s3.GetPublicAccessBlockInput{Bucket: &name})
	if access, err = set(access, err); err != nil {
		return nil, err
	}
	properties, err := fields(access)
	if err != nil {
		return nil, err
	}
	rules := []any{}
	for _, rule := range lifecycle.Rules {
		rules = append(rules, lifecycleRule(rule))
	}
	properties["LifecycleConfiguration"] = map[string]any{"Rules": rules}
	algorithms := []any{}
	if encryption.ServerSideEncryptionConfiguration != nil {
		for _, rule := range encryption.ServerSideEncryptionConfiguration.Rules {
			if d := rule.ApplyServerSideEncryptionByDefault; d != nil {
				algorithms = append(algorithms, map[string]any{"ServerSideEncryptionByDefault": map[string]any{"SSEAlgorithm": string(d.SSEAlgorithm)}})
			}
		}
	}
	properties["BucketEncryption"] = map[string]any{"ServerSideEncryptionConfiguration": algorithms}
	return properties, nil
}

// set takes the answer that something isn't set for an empty description.
func set[T any](described *T, err error) (*T, error) {
	var response *awshttp.ResponseError
	if errors.As(err, &response) && response.HTTPStatusCode() == http.StatusNotFound {
		return new(T), nil
	}
	return described, err
}

func lifecycleRule(rule s3types.LifecycleRule) map[string]any {
	found := map[string]any{"Id": aws.ToString(rule.ID), "Status": string(rule.Status)}
	if rule.Filter != nil {
		found["Prefix"] = aws.ToString(rule.Filter.Prefix)
	}
	if rule.Prefix != nil { //nolint:staticcheck // templates still use it
		found["Prefix"] = *rule.Prefix //nolint:staticcheck // templates still use it
	}
	if rule.Expiration != nil && rule.Expiration.Days != nil {
		found["ExpirationInDays"] = fmt.Sprint(*rule.Expiration.Days)
	}
	if abort := rule.AbortIncompleteMultipartUpload; abort != nil && abort.DaysAfterInitiation != nil {
		found["AbortIncompleteMultipartUpload"] = map[string]any{"DaysAfterInitiation": fmt.Sprint(*abort.DaysAfterInitiation)}
	}
	return found
}
