package main

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamodbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func (a *account) table(ctx context.Context, name string) (map[string]any, error) {
	described, err := a.tables.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &name})
	if err != nil {
		return nil, err
	}
	table := described.Table
	properties, err := fields(table)
	if err != nil {
		return nil, err
	}
	properties["BillingMode"] = "PROVISIONED"
	if table.BillingModeSummary != nil {
		properties["BillingMode"] = string(table.BillingModeSummary.BillingMode)
	}
	properties["SSESpecification"] = encryption(table.SSEDescription)
	if properties["TimeToLiveSpecification"], err = a.timeToLive(ctx, name); err != nil {
		return nil, err
	}
	if properties["PointInTimeRecoverySpecification"], err = a.recovery(ctx, name); err != nil {
		return nil, err
	}
	out, err := a.tables.ListTagsOfResource(ctx, &dynamodb.ListTagsOfResourceInput{ResourceArn: table.TableArn})
	if err != nil {
		return nil, err
	}
	tags := map[string]string{}
	for _, tag := range out.Tags {
		tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
	}
	properties["Tags"] = listed(tags)
	return properties, nil
}

func encryption(d *dynamodbtypes.SSEDescription) map[string]any {
	if d == nil {
		return nil
	}
	enabled := d.Status == dynamodbtypes.SSEStatusEnabled || d.Status == dynamodbtypes.SSEStatusUpdating
	return map[string]any{"SSEEnabled": enabled, "SSEType": string(d.SSEType), "KMSMasterKeyId": aws.ToString(d.KMSMasterKeyArn)}
}

func (a *account) timeToLive(ctx context.Context, name string) (map[string]any, error) {
	out, err := a.tables.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &name})
	if err != nil || out.TimeToLiveDescription == nil {
		return nil, err
	}
	status := out.TimeToLiveDescription.TimeToLiveStatus
	enabled := status == dynamodbtypes.TimeToLiveStatusEnabled || status == dynamodbtypes.TimeToLiveStatusEnabling
	return map[string]any{"Enabled": enabled, "AttributeName": aws.ToString(out.TimeToLiveDescription.AttributeName)}, nil
}

func (a *account) recovery(ctx context.Context, name string) (map[string]any, error) {
	out, err := a.tables.DescribeContinuousBackups(ctx, &dynamodb.DescribeContinuousBackupsInput{TableName: &name})
	if err != nil || out.ContinuousBackupsDescription == nil || out.ContinuousBackupsDescription.PointInTimeRecoveryDescription == nil {
		return nil, err
	}
	d := out.ContinuousBackupsDescription.PointInTimeRecoveryDescription
	enabled := d.PointInTimeRecoveryStatus == dynamodbtypes.PointInTimeRecoveryStatusEnabled
	specification := map[string]any{"PointInTimeRecoveryEnabled": enabled}
	if d.RecoveryPeriodInDays != nil {
		specification["RecoveryPeriodInDays"] = fmt.Sprint(*d.RecoveryPeriodInDays)
	}
	return specification, nil
}

// globalTable moves the settings of a global table's single replica to their place in its template.
func (a *account) globalTable(ctx context.Context, name string) (map[string]any, error) {
	properties, err := a.table(ctx, name)
	if err != nil {
		return nil, err
	}
	replica := map[string]any{"Region": a.tables.Options().Region}
	for _, property := range []string{"PointInTimeRecoverySpecification", "DeletionProtectionEnabled", "TableClass", "SSESpecification"} {
		replica[property] = properties[property]
	}
	properties["Replicas"] = []any{replica}
	return properties, nil
}
