package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// bucket returns the settings that keep a bucket safe and small. S3 returns an error for a setting
// that is not set.
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
				algorithms = append(algorithms, map[string]any{
					"BucketKeyEnabled":              aws.ToBool(rule.BucketKeyEnabled),
					"ServerSideEncryptionByDefault": map[string]any{"SSEAlgorithm": string(d.SSEAlgorithm), "KMSMasterKeyID": aws.ToString(d.KMSMasterKeyID)},
				})
			}
		}
	}
	properties["BucketEncryption"] = map[string]any{"ServerSideEncryptionConfiguration": algorithms}
	return properties, nil
}

// set converts the error for a missing setting to an empty description.
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
