package s3blob_test

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/effectively-once/once/internal/blob/s3blob"
)

// A claimAnswers client returns the answers of its fields.
type claimAnswers struct {
	s3blob.Client
	get     func() (*s3.GetObjectOutput, error)
	failed  []types.Error
	deleted []int
	listErr error
	listed  []string // continuation tokens of the requests
	more    *bool    // IsTruncated of the last page
	next    *string
}

func (a *claimAnswers) GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error) {
	return a.get()
}

func (a *claimAnswers) DeleteObjects(_ context.Context, in *s3.DeleteObjectsInput, _ ...func(*s3.Options)) (*s3.DeleteObjectsOutput, error) {
	a.deleted = append(a.deleted, len(in.Delete.Objects))
	return &s3.DeleteObjectsOutput{Errors: a.failed}, nil
}

// ListObjectsV2 has three pages of one claim each.
func (a *claimAnswers) ListObjectsV2(_ context.Context, in *s3.ListObjectsV2Input, _ ...func(*s3.Options)) (*s3.ListObjectsV2Output, error) {
	token := aws.ToString(in.ContinuationToken)
	a.listed = append(a.listed, token)
	if a.listErr != nil {
		return nil, a.listErr
	}
	page, _ := strconv.Atoi(token)
	if len(a.listed) > 3 {
		return nil, errors.New("asked for more than there is")
	}
	out := &s3.ListObjectsV2Output{IsTruncated: aws.Bool(true), NextContinuationToken: aws.String(strconv.Itoa(page + 1))}
	if page == 2 {
		out.IsTruncated, out.NextContinuationToken = a.more, a.next
	}
	out.Contents = []types.Object{{Key: aws.String(s3blob.ClaimPrefix + "c" + strconv.Itoa(page)), LastModified: aws.Time(time.Unix(int64(page), 0))}}
	return out, nil
}

func TestOnlyAMissingObjectIsAMissingClaim(t *testing.T) {
	for _, c := range []struct {
		name    string
		get     func() (*s3.GetObjectOutput, error)
		missing bool
	}{
		{"no such object", refusing("NoSuchKey"), true},
		{"no such bucket", refusing("NoSuchBucket"), false},
		{"not allowed", refusing("AccessDenied"), false},
		{"service away", refusing("SlowDown"), false},
		{"no answer", func() (*s3.GetObjectOutput, error) { return nil, io.ErrUnexpectedEOF }, false},
		{"half an answer", half, false},
	} {
		body, ok, err := s3blob.NewClaims(&claimAnswers{get: c.get}, "bucket").Get(t.Context(), "a")
		if ok || len(body) > 0 || c.missing != (err == nil) {
			t.Errorf("%s: %q, %t, %v", c.name, body, ok, err)
		}
	}
}

// half answers with a body that ends early.
func half() (*s3.GetObjectOutput, error) {
	return &s3.GetObjectOutput{Body: io.NopCloser(io.MultiReader(strings.NewReader("half"), iotest.ErrReader(io.ErrUnexpectedEOF)))}, nil
}

func TestAClaimWhoseBodyEndsEarlyIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		a := &claimAnswers{get: func() (*s3.GetObjectOutput, error) {
			if asked++; asked < 3 {
				return half()
			}
			return &s3.GetObjectOutput{Body: io.NopCloser(strings.NewReader("whole"))}, nil
		}}
		body, ok, err := s3blob.NewClaims(a, "bucket").Get(t.Context(), "a")
		if err != nil || !ok || string(body) != "whole" {
			t.Errorf("got %q, %t, %v, want the whole claim", body, ok, err)
		}
		a.get = half
		if _, _, err := s3blob.NewClaims(a, "bucket").Get(t.Context(), "a"); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("a body that ends early each time: %v, want %v", err, io.ErrUnexpectedEOF)
		}
		ctx, cancel := context.WithCancel(t.Context())
		asked = 0
		a.get = func() (*s3.GetObjectOutput, error) { asked++; cancel(); return half() }
		if _, _, err := s3blob.NewClaims(a, "bucket").Get(ctx, "a"); err == nil || asked != 1 {
			t.Errorf("asked %d times after the context ended, %v; want an error after one", asked, err)
		}
	})
}

func refusing(code string) func() (*s3.GetObjectOutput, error) {
	return func() (*s3.GetObjectOutput, error) { return nil, &smithy.GenericAPIError{Code: code} }
}

func TestAClaimThatWasNotDeletedIsReportedEvenIfOthersWere(t *testing.T) {
	a := &claimAnswers{}
	names := make([]string, 2500)
	if err := s3blob.NewClaims(a, "bucket").Delete(t.Context(), names); err != nil || len(a.deleted) != 3 {
		t.Errorf("deleted %v, %v", a.deleted, err)
	}
	a.failed = []types.Error{{Code: aws.String("SlowDown"), Message: aws.String("told so")}}
	if err := s3blob.NewClaims(a, "bucket").Delete(t.Context(), names); err == nil || !strings.Contains(err.Error(), "SlowDown") {
		t.Errorf("got %v", err)
	}
}

func TestEveryPageOfClaimsIsListed(t *testing.T) {
	for name, a := range map[string]*claimAnswers{"no more": {more: aws.Bool(false), next: aws.String("3")}, "no way to more": {more: aws.Bool(true)}} {
		names, err := s3blob.NewClaims(a, "bucket").List(t.Context(), time.Unix(2, 0))
		if err != nil || strings.Join(names, " ") != "c0 c1" || strings.Join(a.listed, " ") != " 1 2" {
			t.Errorf("%s: listed %q by %q, %v", name, names, a.listed, err)
		}
	}
}

func TestAListThatFailsIsAnError(t *testing.T) {
	away := errors.New("away")
	names, err := s3blob.NewClaims(&claimAnswers{listErr: away}, "bucket").List(t.Context(), time.Unix(2, 0))
	if !errors.Is(err, away) || names != nil {
		t.Errorf("listed %q, %v", names, err)
	}
}
