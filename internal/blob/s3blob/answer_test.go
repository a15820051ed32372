package s3blob_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/effectively-once/once/internal/blob/s3blob"
	"github.com/effectively-once/once/internal/record"
)

// An answering client returns the answers of its fields.
type answering struct {
	s3blob.Client
	copied  error
	deleted int
	more    *bool // IsTruncated of the only page of the listing
	next    *string
}

func (a *answering) CopyObject(context.Context, *s3.CopyObjectInput, ...func(*s3.Options)) (*s3.CopyObjectOutput, error) {
	return nil, a.copied
}

func (a *answering) DeleteObject(context.Context, *s3.DeleteObjectInput, ...func(*s3.Options)) (*s3.DeleteObjectOutput, error) {
	a.deleted++
	return nil, nil //nolint:nilnil // nobody looks at it
}

func (a *answering) ListObjectsV2(_ context.Context, in *s3.ListObjectsV2Input, _ ...func(*s3.Options)) (*s3.ListObjectsV2Output, error) {
	if in.ContinuationToken != nil {
		return nil, errors.New("asked for more than there is")
	}
	out := &s3.ListObjectsV2Output{IsTruncated: a.more, NextContinuationToken: a.next}
	for _, name := range []string{"a%2F1", "", "%zz", "b"} { // not all of them are ours
		out.Contents = append(out.Contents, types.Object{Key: aws.String(s3blob.Prefix + name), LastModified: aws.Time(time.Unix(1, 0))})
	}
	return out, nil
}

func TestOnlyAMissingObjectCountsAsPublished(t *testing.T) {
	for _, c := range []struct {
		name      string
		err       error
		published bool
		deletes   int
	}{
		{"copied", nil, true, 1},
		{"no such object", &smithy.GenericAPIError{Code: "NoSuchKey"}, true, 0},
		{"no such bucket", &smithy.GenericAPIError{Code: "NoSuchBucket"}, false, 0},
		{"not allowed", &smithy.GenericAPIError{Code: "AccessDenied"}, false, 0},
		{"service away", &smithy.GenericAPIError{Code: "InternalError"}, false, 0},
		{"no answer", io.ErrUnexpectedEOF, false, 0},
	} {
		a := &answering{copied: c.err}
		err := s3blob.New(a, "bucket").Publish(t.Context(), record.Blob{Key: "k", Staged: "s"})
		if c.published != (err == nil) || a.deleted != c.deletes {
			t.Errorf("%s: %v, %d staged objects deleted", c.name, err, a.deleted)
		}
	}
}

func TestASweepEndsAndSkipsOtherNames(t *testing.T) {
	for name, a := range map[string]*answering{"no more": {more: aws.Bool(false), next: aws.String("1")}, "no way to more": {more: aws.Bool(true)}} {
		names, err := s3blob.New(a, "bucket").Staged(t.Context(), time.Unix(2, 0))
		if err != nil || strings.Join(names, " ") != "a/1 b" {
			t.Errorf("%s: %q, %v", name, names, err)
		}
		if names, err := s3blob.New(a, "bucket").Staged(t.Context(), time.Unix(1, 0)); err != nil || len(names) > 0 {
			t.Errorf("%s: what is staged at that time is no older: %q, %v", name, names, err)
		}
	}
}
