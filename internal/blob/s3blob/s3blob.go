// Package s3blob stores staged and published objects, and claims, in a bucket of Amazon S3.
//
// A staged object has the key ".staged/" and a name that is unique to the attempt. S3 shows an
// object completely or not at all, so the object's entry in the listing is its registration: a
// sweep that lists the prefix finds it after a crash at any moment. Publishing copies the object to
// its key within S3, and deletes the staged one after that.
//
// # Errors
//
// Repeated staging, publishing and discarding is harmless. If a key breaks the rules, the error is
// a [*blob.InvalidError], and nothing has changed. After any other error, the call may have been
// applied. Permissions to get, put, delete and list are needed: without the last one, S3 reports a
// missing object as forbidden, and Publish could not detect that it was done before.
//
// # Limits
//
// An object is limited to 5 GB, a key to 1024 bytes. If the reply to a copy is lost, and S3
// executes the copy after a newer object was published under the same key, the older object
// returns: use keys that are not shared by groups, or enable versioning. A lifecycle rule for
// ".staged/" must be longer than effects may be pending; it is only a backup of the sweep.
package s3blob

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/effectively-once/once/internal/blob"
	"github.com/effectively-once/once/internal/record"
)

// Prefix is the prefix of the keys of staged objects. No key of a published object starts with it.
const Prefix = blob.Staged + "/"

// A Bucket keeps staged and published objects. It keeps nothing in memory.
type Bucket struct{ bucket bucket }

var _ record.Blobs = (*Bucket)(nil)

// New returns the blobs of a bucket. It does no call.
func New(client Client, name string) *Bucket { return &Bucket{bucket{client, name}} }

// Check is [blob.Check].
func (b *Bucket) Check(key string) error { return blob.Check(key) }

// stagedKey returns the key of a staged object.
func stagedKey(staged string) (string, error) {
	part, err := blob.Escape(staged)
	return Prefix + part, err
}

// escape returns a key in the form of a header value.
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
	if err := b.bucket.put(ctx, key, body); err != nil {
		return fmt.Errorf("stage blob: %w", err)
	}
	return nil
}

// Publish implements record.Blobs. If nothing is staged under the name, it was published before.
func (b *Bucket) Publish(ctx context.Context, object record.Blob) error {
	if err := blob.Check(object.Key); err != nil {
		return err
	}
	staged, err := stagedKey(object.Staged)
	if err != nil {
		return err
	}
	_, err = b.bucket.client.CopyObject(ctx, &s3.CopyObjectInput{Bucket: &b.bucket.name, Key: &object.Key, CopySource: aws.String(url.PathEscape(b.bucket.name) + "/" + escape(staged))})
	if missing(err) {
		return nil
	}
	if err == nil {
		_, err = b.bucket.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.bucket.name, Key: &staged})
	}
	if err != nil {
		return fmt.Errorf("publish blob: %w", err)
	}
	return nil
}

// Discard deletes staged objects; missing ones are no error.
func (b *Bucket) Discard(ctx context.Context, staged []string) error {
	var errs []error
	var keys []string
	for _, name := range staged {
		key, err := stagedKey(name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		keys = append(keys, key)
	}
	if err := b.bucket.delete(ctx, keys); err != nil {
		errs = append(errs, fmt.Errorf("discard blobs: %w", err))
	}
	return errors.Join(errs...)
}

// Staged returns the names of the objects that were staged before a time, by S3's clock. It leaves
// out objects that have no name of ours.
func (b *Bucket) Staged(ctx context.Context, before time.Time) ([]string, error) {
	escaped, err := b.bucket.list(ctx, Prefix, before)
	if err != nil {
		return nil, fmt.Errorf("list staged blobs: %w", err)
	}
	var names []string
	for _, part := range escaped {
		if name, ok := blob.Unescape(part); ok {
			names = append(names, name)
		}
	}
	return names, nil
}
