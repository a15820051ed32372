package main

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
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
