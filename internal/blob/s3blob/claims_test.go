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
	"github.com/effectively-once/once/internal/queue/claimcheck"
	"github.com/effectively-once/once/internal/testkit/awstest"
)

var (
	_ dynamostore.Claims = (*s3blob.Claims)(nil)
	_ claimcheck.Bodies  = (*s3blob.Claims)(nil)
)

func newBucket(t *testing.T) (*s3blob.Claims, *s3.Client) {
	t.Helper()
	b, client, _ := namedBucket(t)
	return b, client
}

func namedBucket(t *testing.T) (claims *s3blob.Claims, client *s3.Client, name string) {
	t.Helper()
	cfg := awstest.Config(t, "S3")
	client, name = s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = true }), "test-"+strings.ToLower(rand.Text())
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
	return b, client, name
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

func TestBodiesAndClaimsOfABucketAreApart(t *testing.T) {
	claims, client, name := namedBucket(t)
	bodies := s3blob.NewBodies(client, name)
	t.Cleanup(func() {
		if err := bodies.Delete(context.WithoutCancel(t.Context()), []string{"a"}); err != nil {
			t.Error(err)
		}
	})
	if err := bodies.Put(t.Context(), "a", []byte("body")); err != nil {
		t.Fatal(err)
	}
	if body, ok, err := bodies.Get(t.Context(), "a"); string(body) != "body" || !ok || err != nil {
		t.Errorf("%q, %t, %v", body, ok, err)
	}
	if _, ok, err := claims.Get(t.Context(), "a"); ok || err != nil {
		t.Errorf("a body is a claim, %v", err)
	}
	// or a sweep would delete it as a claim without an owner
	if names, err := claims.List(t.Context(), time.Now().Add(time.Hour)); len(names) > 0 || err != nil {
		t.Errorf("claims %q, %v", names, err)
	}
	if names, err := bodies.List(t.Context(), time.Now().Add(time.Hour)); len(names) != 1 || err != nil {
		t.Errorf("bodies %q, %v", names, err)
	}
}
