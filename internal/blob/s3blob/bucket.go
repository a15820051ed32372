package s3blob

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
	"github.com/cenkalti/backoff/v5"
)

// Client is the part of S3 that the package uses; *s3.Client implements it.
type Client interface {
	PutObject(ctx context.Context, in *s3.PutObjectInput, options ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	GetObject(ctx context.Context, in *s3.GetObjectInput, options ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	CopyObject(ctx context.Context, in *s3.CopyObjectInput, options ...func(*s3.Options)) (*s3.CopyObjectOutput, error)
	DeleteObject(ctx context.Context, in *s3.DeleteObjectInput, options ...func(*s3.Options)) (*s3.DeleteObjectOutput, error)
	DeleteObjects(ctx context.Context, in *s3.DeleteObjectsInput, options ...func(*s3.Options)) (*s3.DeleteObjectsOutput, error)
	ListObjectsV2(ctx context.Context, in *s3.ListObjectsV2Input, options ...func(*s3.Options)) (*s3.ListObjectsV2Output, error)
}

// A bucket is what blobs and claims share.
type bucket struct {
	client Client
	name   string
}

func (b *bucket) put(ctx context.Context, key string, body []byte) error {
	_, err := b.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &b.name, Key: &key, Body: bytes.NewReader(body), ContentLength: aws.Int64(int64(len(body)))})
	return err
}

// reads is how often an object is read if its body ends early.
const reads = 3

// get returns an object. The SDK repeats a request that failed, but leaves it to its caller to
// repeat one whose answer ends before its body does.
func (b *bucket) get(ctx context.Context, key string) ([]byte, error) {
	return backoff.Retry(ctx, func() ([]byte, error) {
		out, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: &key})
		if err != nil {
			return nil, backoff.Permanent(err)
		}
		body, err := io.ReadAll(out.Body)
		return body, errors.Join(err, out.Body.Close())
	}, backoff.WithMaxTries(reads))
}

// missing reports whether S3 has no object under the key. A missing bucket is another error.
func missing(err error) bool {
	answer, ok := errors.AsType[smithy.APIError](err)
	return ok && answer.ErrorCode() == "NoSuchKey"
}

// deleteLimit is how many objects S3 deletes in one request.
const deleteLimit = 1000

// delete deletes objects; missing ones are no error. It tries all of them.
func (b *bucket) delete(ctx context.Context, keys []string) error {
	var errs []error
	for chunk := range slices.Chunk(keys, deleteLimit) {
		objects := make([]types.ObjectIdentifier, len(chunk))
		for i := range chunk {
			objects[i].Key = &chunk[i]
		}
		out, err := b.client.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: &b.name, Delete: &types.Delete{Objects: objects, Quiet: aws.Bool(true)}})
		if err == nil && len(out.Errors) > 0 {
			err = fmt.Errorf("%d of %d: %s: %s", len(out.Errors), len(objects), aws.ToString(out.Errors[0].Code), aws.ToString(out.Errors[0].Message))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// list returns the names below prefix that were written before a time, by S3's clock.
func (b *bucket) list(ctx context.Context, prefix string, before time.Time) ([]string, error) {
	var names []string
	in := &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: &prefix}
	for {
		out, err := b.client.ListObjectsV2(ctx, in)
		if err != nil {
			return nil, err
		}
		for i := range out.Contents {
			if o := &out.Contents[i]; aws.ToTime(o.LastModified).Before(before) {
				names = append(names, strings.TrimPrefix(aws.ToString(o.Key), prefix))
			}
		}
		if !aws.ToBool(out.IsTruncated) || aws.ToString(out.NextContinuationToken) == "" {
			return names, nil
		}
		in.ContinuationToken = out.NextContinuationToken
	}
}
