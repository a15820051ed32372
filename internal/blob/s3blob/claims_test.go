package s3blob_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/blob/s3blob"
	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/testkit/awstest"
)

var _ dynamostore.Claims = (*s3blob.Claims)(nil)

func newBucket(t *testing.T) (*s3blob.Claims, *s3.Client) {
	t.Helper()
	cfg := awstest.Config(t, "S3")
	client, name := s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = true }), "test-"+strings.ToLower(rand.Text())
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name}); err != nil {
		t.Fatal(err)
	}
	b := s3blob.NewClaims(client, name)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		names, err := b.List(ctx, time.Now().Add(time.Hour))
		if err == nil {
			err = b.Delete(ctx, names)
		}
		if err == nil {
			_, err = client.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &name})
		}
		if err != nil {
			t.Error(err)
		}
	})
	return b, client
}

func TestAClaimExistsUntilItIsDeleted(t *testing.T) {
	b, _ := newBucket(t)
	body := bytes.Repeat([]byte{0, 0xff}, 300<<10)
	const name = "b3JkZXJzI2E/0123/s"
	for range 2 {
		if err := b.Put(t.Context(), name, body); err != nil {
			t.Fatal(err)
		}
	}
	if got, ok, err := b.Get(t.Context(), name); !bytes.Equal(got, body) || !ok || err != nil {
		t.Errorf("%d bytes, %t, %v", len(got), ok, err)
	}
	for range 2 {
		if err := b.Delete(t.Context(), []string{name}); err != nil {
			t.Fatal(err)
		}
		if got, ok, err := b.Get(t.Context(), name); len(got) > 0 || ok || err != nil {
			t.Errorf("%d bytes, %t, %v", len(got), ok, err)
		}
	}
}

func TestAMissingBucketIsNoMissingClaim(t *testing.T) {
	_, client := newBucket(t)
	if _, _, err := s3blob.NewClaims(client, "missing-"+strings.ToLower(rand.Text())).Get(t.Context(), "a"); err == nil {
		t.Error("read from a bucket that is not there")
	}
}

func TestClaimsFromBeforeATimeAreListed(t *testing.T) {
	b, _ := newBucket(t)
	var want []string
	for i := range 3 {
		want = append(want, fmt.Sprintf("a/%d/s", i))
		if err := b.Put(t.Context(), want[i], []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	got, err := b.List(t.Context(), time.Now().Add(time.Hour))
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%s, %v", d, err)
	}
	if got, err := b.List(t.Context(), time.Now().Add(-time.Hour)); len(got) != 0 || err != nil {
		t.Errorf("an hour ago there was %q, %v", got, err)
	}
}
