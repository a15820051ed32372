// Package claim keeps in a bucket of Amazon S3 what is too large for a record, for a store that keeps the names: claim checks.
//
// A claim lies under ".claims/" and its name, which is given once and never again. Claims have no end of their own: no lifecycle rule may delete them. What no record refers
// to any more is deleted by the store, or by its sweep.
//
// # Errors
//
// Any error leaves a call applied or not; all may be repeated. Permissions to get, put, delete and list are needed: without the last one S3 calls a missing claim forbidden.
package claim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/effectively-once/once/internal/blobkey"
)

// Prefix is where claims lie.
const Prefix = blobkey.Claims + "/"

// Client is what the package asks of S3; *s3.Client is one.
type Client interface {
	PutObject(ctx context.Context, in *s3.PutObjectInput, options ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	GetObject(ctx context.Context, in *s3.GetObjectInput, options ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	DeleteObjects(ctx context.Context, in *s3.DeleteObjectsInput, options ...func(*s3.Options)) (*s3.DeleteObjectsOutput, error)
	ListObjectsV2(ctx context.Context, in *s3.ListObjectsV2Input, options ...func(*s3.Options)) (*s3.ListObjectsV2Output, error)
}

// A Bucket keeps claims. It keeps nothing in memory.
type Bucket struct {
	client Client
	name   string
}

// New makes the port to a bucket. It does no call.
func New(client Client, bucket string) *Bucket { return &Bucket{client: client, name: bucket} }

// Put writes a claim.
func (b *Bucket) Put(ctx context.Context, name string, body []byte) error {
	_, err := b.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &b.name, Key: aws.String(Prefix + name), Body: bytes.NewReader(body), ContentLength: aws.Int64(int64(len(body))),
	})
	if err != nil {
		return fmt.Errorf("put claim: %w", err)
	}
	return nil
}

// Get reads a claim; ok is false where there is none.
func (b *Bucket) Get(ctx context.Context, name string) (body []byte, ok bool, err error) {
	out, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: aws.String(Prefix + name)})
	if answer, is := errors.AsType[smithy.APIError](err); is && answer.ErrorCode() == "NoSuchKey" {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("get claim: %w", err)
	}
	body, err = io.ReadAll(out.Body)
	if err := errors.Join(err, out.Body.Close()); err != nil {
		return nil, false, fmt.Errorf("get claim: %w", err)
	}
	return body, true, nil
}

// batch is how many objects S3 deletes at once.
const batch = 1000

// Delete deletes claims; missing ones are fine.
func (b *Bucket) Delete(ctx context.Context, names []string) error {
	for chunk := range slices.Chunk(names, batch) {
		objects := make([]types.ObjectIdentifier, len(chunk))
		for i, name := range chunk {
			objects[i].Key = aws.String(Prefix + name)
		}
		out, err := b.client.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: &b.name, Delete: &types.Delete{Objects: objects, Quiet: aws.Bool(true)}})
		if err == nil && len(out.Errors) > 0 {
			err = fmt.Errorf("%d of %d: %s: %s", len(out.Errors), len(objects), aws.ToString(out.Errors[0].Code), aws.ToString(out.Errors[0].Message))
		}
		if err != nil {
			return fmt.Errorf("delete claims: %w", err)
		}
	}
	return nil
}

// List gives the names of the claims that were written before a time, by S3's clock.
func (b *Bucket) List(ctx context.Context, before time.Time) ([]string, error) {
	var names []string
	in := &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: aws.String(Prefix)}
	for {
		out, err := b.client.ListObjectsV2(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("list claims: %w", err)
		}
		for i := range out.Contents {
			if o := &out.Contents[i]; aws.ToTime(o.LastModified).Before(before) {
				names = append(names, strings.TrimPrefix(aws.ToString(o.Key), Prefix))
			}
		}
		if !aws.ToBool(out.IsTruncated) || aws.ToString(out.NextContinuationToken) == "" {
			return names, nil
		}
		in.ContinuationToken = out.NextContinuationToken
	}
}
