package s3blob_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/blob"
	"github.com/effectively-once/once/internal/blob/s3blob"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/awstest"
)

// lossy loses the answer of the next request that it matches, after the request was applied.
type lossy struct {
	inner *awshttp.BuildableClient
	lose  func(r *http.Request) bool
}

func (l *lossy) Do(r *http.Request) (*http.Response, error) {
	response, err := l.inner.Do(r)
	if err != nil || l.lose == nil || !l.lose(r) {
		return response, err
	}
	l.lose = nil
	if err := response.Body.Close(); err != nil {
		return nil, err
	}
	return nil, syscall.ECONNRESET
}

// world is an empty bucket.
type world struct {
	*s3blob.Bucket
	client *s3.Client
	net    *lossy
	name   string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	cfg := awstest.Config(t, "S3")
	w := &world{net: &lossy{inner: awshttp.NewBuildableClient()}, name: "test-" + strings.ToLower(rand.Text())}
	w.client = s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle, o.HTTPClient = true, w.net })
	w.Bucket = s3blob.New(w.client, w.name)
	if _, err := w.client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &w.name}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		for _, key := range w.keys(ctx, t) {
			if _, err := w.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &w.name, Key: &key}); err != nil {
				t.Error(err)
			}
		}
		if _, err := w.client.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &w.name}); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) keys(ctx context.Context, t *testing.T) []string {
	t.Helper()
	out, err := w.client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &w.name})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, o := range out.Contents {
		keys = append(keys, aws.ToString(o.Key))
	}
	return keys
}

func (w *world) stage(t *testing.T, name, body string) {
	t.Helper()
	if err := w.Stage(t.Context(), name, []byte(body)); err != nil {
		t.Fatal(err)
	}
}

func (w *world) publish(t *testing.T, key, staged string) {
	t.Helper()
	if err := w.Publish(t.Context(), record.Blob{Key: key, Staged: staged}); err != nil {
		t.Fatal(err)
	}
}

// want compares the whole bucket.
func (w *world) want(t *testing.T, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for _, key := range w.keys(t.Context(), t) {
		out, err := w.client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &w.name, Key: &key})
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(out.Body)
		if err := errors.Join(err, out.Body.Close()); err != nil {
			t.Fatal(err)
		}
		got[key] = string(body)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("bucket (-want +got)\n%s", d)
	}
}

func TestAStagedObjectBecomesVisibleUnderItsKey(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"attempt.1/a%2Fb", "with space+plus", "ünï"} {
		w.stage(t, name, "one")
		w.publish(t, "folder/ä b+c", name)
		w.want(t, map[string]string{"folder/ä b+c": "one"})
		w.stage(t, name, "two")
		w.publish(t, "folder/ä b+c", name)
		w.want(t, map[string]string{"folder/ä b+c": "two"})
	}
}

func TestPublishingAgainIsHarmless(t *testing.T) {
	w := newWorld(t)
	w.stage(t, "s", "body")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := w.Publish(t.Context(), record.Blob{Key: "k", Staged: "s"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	w.publish(t, "k", "s")
	w.want(t, map[string]string{"k": "body"})
}

func TestALostAnswerLosesNoObject(t *testing.T) {
	for _, lost := range []struct {
		name string
		lose func(r *http.Request) bool
	}{
		{"stage", func(r *http.Request) bool {
			return r.Method == http.MethodPut && r.Header.Get("X-Amz-Copy-Source") == ""
		}},
		{"copy", func(r *http.Request) bool { return r.Header.Get("X-Amz-Copy-Source") != "" }},
		{"delete", func(r *http.Request) bool { return r.Method == http.MethodDelete }},
	} {
		t.Run(lost.name, func(t *testing.T) {
			w := newWorld(t)
			w.net.lose = lost.lose
			w.stage(t, "s", "body")
			w.publish(t, "k", "s")
			if w.net.lose != nil {
				t.Error("nothing was lost")
			}
			w.want(t, map[string]string{"k": "body"})
		})
	}
}

func TestAMissingBucketIsNoPublishedObject(t *testing.T) {
	w := newWorld(t)
	err := s3blob.New(w.client, w.name+"-missing").Publish(t.Context(), record.Blob{Key: "k", Staged: "s"})
	if err == nil {
		t.Error("published into a bucket that is not there")
	}
}

func TestDiscardDeletesOnlyStagedObjects(t *testing.T) {
	w := newWorld(t)
	w.stage(t, "k", "published")
	w.publish(t, "k", "k")
	w.stage(t, "k", "staged")
	w.stage(t, "other", "staged")
	for range 2 {
		if err := w.Discard(t.Context(), []string{"k", "missing"}); err != nil {
			t.Fatal(err)
		}
	}
	w.want(t, map[string]string{"k": "published", ".staged/other": "staged"})
	if err := w.Discard(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

func TestASweepFindsStagedObjects(t *testing.T) {
	w := newWorld(t)
	w.stage(t, "published", "x")
	w.publish(t, "k", "published")
	var want []string
	for i := range 3 {
		want = append(want, "attempt/"+strconv.Itoa(i))
		w.stage(t, want[i], "x")
	}
	got, err := w.Staged(t.Context(), time.Now().Add(time.Hour))
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%s, %v", d, err)
	}
	if got, err := w.Staged(t.Context(), time.Now().Add(-time.Hour)); len(got) != 0 || err != nil {
		t.Errorf("an hour ago there was %q, %v", got, err)
	}
}

// pages is a bucket whose listing has many pages.
type pages struct {
	s3blob.Client
	deleted []int
}

func (p *pages) ListObjectsV2(_ context.Context, in *s3.ListObjectsV2Input, _ ...func(*s3.Options)) (*s3.ListObjectsV2Output, error) {
	page, _ := strconv.Atoi(aws.ToString(in.ContinuationToken))
	out := &s3.ListObjectsV2Output{IsTruncated: aws.Bool(page < 2), NextContinuationToken: aws.String(strconv.Itoa(page + 1))}
	for i := range 1000 {
		out.Contents = append(out.Contents, object(page*1000+i))
	}
	return out, nil
}

func (p *pages) DeleteObjects(_ context.Context, in *s3.DeleteObjectsInput, _ ...func(*s3.Options)) (*s3.DeleteObjectsOutput, error) {
	p.deleted = append(p.deleted, len(in.Delete.Objects))
	return &s3.DeleteObjectsOutput{Errors: failures(len(p.deleted) == 2)}, nil
}

func TestManyObjectsAreListedAndDeletedInParts(t *testing.T) {
	p := &pages{}
	b := s3blob.New(p, "bucket")
	names, err := b.Staged(t.Context(), time.Now())
	if err != nil || len(names) != 3000 {
		t.Fatalf("%d names, %v", len(names), err)
	}
	err = b.Discard(t.Context(), names[:2500])
	if d := cmp.Diff([]int{1000, 1000, 500}, p.deleted); d != "" || err == nil || !strings.Contains(err.Error(), "SlowDown") {
		t.Errorf("%s, %v", d, err)
	}
}

func TestOnlyPathsAreKeys(t *testing.T) {
	if s3blob.Prefix != blob.Staged+"/" {
		t.Errorf("objects are staged under %s", s3blob.Prefix)
	}
	for _, key := range []string{"", "/a", "a/../b", ".staged/x", ".claims/x"} {
		var invalid *blob.InvalidError
		if err := s3blob.New(nil, "b").Check(key); !errors.As(err, &invalid) {
			t.Errorf("%q: %v", key, err)
		}
		if err := s3blob.New(nil, "b").Publish(t.Context(), record.Blob{Key: key, Staged: "s"}); !errors.As(err, &invalid) {
			t.Errorf("published %q: %v", key, err)
		}
	}
}

func object(i int) types.Object {
	return types.Object{Key: aws.String(s3blob.Prefix + strconv.Itoa(i)), LastModified: aws.Time(time.Unix(1, 0))}
}

func failures(some bool) []types.Error {
	if !some {
		return nil
	}
	return []types.Error{{Code: aws.String("SlowDown"), Message: aws.String("told so")}}
}
