// Package blobs3 keeps staged and published objects in a bucket of Amazon S3.
//
// A staged object lies under ".staged/" and its attempt-unique name. S3 shows an object whole or not at all, so the object's own entry in the listing is its registration: whatever
// moment a crash chooses, a sweep that lists the prefix finds what is left. Publishing copies the object to its key within S3, and deletes the staged one only after that.
//
// # Errors
//
// Staging, publishing and discarding again is harmless. A key that breaks the rules is an [*blobkey.InvalidError], before anything is touched. Any other error leaves the call applied
// or not. Permissions to get, put, delete and list are needed: without the last one S3 calls a missing object forbidden, and what was published before could not be told.
//
// # Limits
//
// An object is at most 5 GB, a key 1024 bytes. A copy whose answer was lost, and that S3 still makes after the same key was published anew, puts the older object back: let groups
// have keys of their own, or turn on versions. A lifecycle rule for ".staged/" must be longer than effects may be pending; it is a second net below the sweep.
package blobs3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/effectively-once/once/internal/blobkey"
	"github.com/effectively-once/once/internal/record"
)

// Prefix is where staged objects lie. No key of an object starts with it.
const Prefix = blobkey.Staged + "/"

// Client is what the package asks of S3; *s3.Client is one.
type Client interface {
	PutObject(ctx context.Context, in *s3.PutObjectInput, options ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	CopyObject(ctx context.Context, in *s3.CopyObjectInput, options ...func(*s3.Options)) (*s3.CopyObjectOutput, error)
	DeleteObject(ctx context.Context, in *s3.DeleteObjectInput, options ...func(*s3.Options)) (*s3.DeleteObjectOutput, error)
	DeleteObjects(ctx context.Context, in *s3.DeleteObjectsInput, options ...func(*s3.Options)) (*s3.DeleteObjectsOutput, error)
	ListObjectsV2(ctx context.Context, in *s3.ListObjectsV2Input, options ...func(*s3.Options)) (*s3.ListObjectsV2Output, error)
}

// A Bucket is a record.Blobs. It keeps nothing between calls.
type Bucket struct {
	client Client
	name   string
}

var _ record.Blobs = (*Bucket)(nil)

// New makes the port to a bucket. It does no call.
func New(client Client, bucket string) *Bucket { return &Bucket{client: client, name: bucket} }

// Check is [blobkey.Check].
func (b *Bucket) Check(key string) error { return blobkey.Check(key) }

// stagedKey is the key of a staged name.
func stagedKey(staged string) (string, error) {
	part, err := blobkey.Escape(staged)
	return Prefix + part, err
}

// escape writes a key as it stands in a header.
func escape(key string) string {
	parts := strings.Split(key, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

// Stage implements record.Blobs. Staging a name again replaces its content.
func (b *Bucket) Stage(ctx context.Context, staged string, body []byte) error {
	key, err := stagedKey(staged)
	if err != nil {
		return err
	}
	_, err = b.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &b.name, Key: &key, Body: bytes.NewReader(body), ContentLength: aws.Int64(int64(len(body)))})
	if err != nil {
		return fmt.Errorf("stage blob: %w", err)
	}
	return nil
}

// Publish implements record.Blobs. Where nothing is staged under the name, it was published before.
func (b *Bucket) Publish(ctx context.Context, blob record.Blob) error {
	if err := blobkey.Check(blob.Key); err != nil {
		return err
	}
	staged, err := stagedKey(blob.Staged)
	if err != nil {
		return err
	}
	_, err = b.client.CopyObject(ctx, &s3.CopyObjectInput{Bucket: &b.name, Key: &blob.Key, CopySource: aws.String(url.PathEscape(b.name) + "/" + escape(staged))})
	if missing(err) {
		return nil
	}
	if err == nil {
		_, err = b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: &staged})
	}
	if err != nil {
		return fmt.Errorf("publish blob: %w", err)
	}
	return nil
}

// missing reports whether an error says that there is no such object; a missing bucket is something else.
func missing(err error) bool {
	answer, ok := errors.AsType[smithy.APIError](err)
	return ok && answer.ErrorCode() == "NoSuchKey"
}

// batch is how many objects S3 deletes at once.
const batch = 1000

// Discard implements record.Blobs.
func (b *Bucket) Discard(ctx context.Context, staged []string) error {
	var errs []error
	var objects []types.ObjectIdentifier
	for _, name := range staged {
		key, err := stagedKey(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		objects = append(objects, types.ObjectIdentifier{Key: &key})
	}
	for chunk := range slices.Chunk(objects, batch) {
		if err := b.deleteAll(ctx, chunk); err != nil {
			errs = append(errs, fmt.Errorf("discard blobs: %w", err))
		}
	}
	return errors.Join(errs...)
}

func (b *Bucket) deleteAll(ctx context.Context, objects []types.ObjectIdentifier) error {
	out, err := b.client.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: &b.name, Delete: &types.Delete{Objects: objects, Quiet: aws.Bool(true)}})
	if err != nil {
		return err
	}
	if n := len(out.Errors); n > 0 {
		return fmt.Errorf("%d of %d: %s: %s", n, len(objects), aws.ToString(out.Errors[0].Code), aws.ToString(out.Errors[0].Message))
	}
	return nil
}

// Staged implements record.Blobs. The times are S3's.
func (b *Bucket) Staged(ctx context.Context, before time.Time) ([]string, error) {
	var names []string
	in := &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: aws.String(Prefix)}
	for {
		out, err := b.client.ListObjectsV2(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("list staged blobs: %w", err)
		}
		for i := range out.Contents {
			if o := &out.Contents[i]; aws.ToTime(o.LastModified).Before(before) {
				if name, ok := blobkey.Unescape(strings.TrimPrefix(aws.ToString(o.Key), Prefix)); ok {
					names = append(names, name)
				}
			}
		}
		if !aws.ToBool(out.IsTruncated) || aws.ToString(out.NextContinuationToken) == "" {
			return names, nil
		}
		in.ContinuationToken = out.NextContinuationToken
	}
}
