package oncedynamo_test

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/dedup/lease"
	"github.com/effectively-once/once/internal/dedup/storetest"
	"github.com/effectively-once/once/internal/testkit/awstest"
	"github.com/effectively-once/once/oncedynamo"
)

// connect returns a client of the endpoint in the environment, which passes the name of every call
// to seen.
func connect(t *testing.T, seen func(operation string)) *dynamodb.Client {
	t.Helper()
	return dynamodb.NewFromConfig(awstest.Config(t, "DYNAMODB"), func(o *dynamodb.Options) {
		o.DisableValidateResponseChecksum = true // DynamoDB Local sends no checksum with an error
		o.APIOptions = append(o.APIOptions, func(s *middleware.Stack) error {
			return s.Initialize.Add(middleware.InitializeMiddlewareFunc("seen", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
				if seen != nil {
					seen(middleware.GetOperationName(ctx))
				}
				return next.HandleInitialize(ctx, in)
			}), middleware.Before)
		})
	})
}

// created creates a table, which is deleted when the test ends.
func created(t *testing.T, client *dynamodb.Client) string {
	t.Helper()
	table := "test-" + rand.Text()
	if err := oncedynamo.CreateTable(t.Context(), client, table); err != nil {
		t.Fatalf("create table: %v; want a table", err)
	}
	t.Cleanup(func() {
		if _, err := client.DeleteTable(context.WithoutCancel(t.Context()), &dynamodb.DeleteTableInput{TableName: &table}); err != nil {
			t.Errorf("delete table: %v", err)
		}
	})
	return table
}

// The store is the one of Tokens. Its table does not expire items: to the database, whose clock is
// the real one, all those of the tests have expired.
func TestTokensConform(t *testing.T) {
	t.Parallel()
	client := connect(t, nil)
	h := storetest.TokenHarness{Open: func(t *testing.T, now func() time.Time) lease.Store {
		t.Helper()
		table := awstest.Tables(t, client).Tokens
		s, err := dynamostore.New(client, dynamostore.Tables{Groups: table, Tokens: table}, dynamostore.Options{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}}
	storetest.RunTokens(t, h)
	t.Run("histories of two replicas are linearizable", func(t *testing.T) { storetest.TokenHistories(t, h, 500) })
}

func TestATableIsCreatedOnceAndExpiresItems(t *testing.T) {
	t.Parallel()
	client := connect(t, nil)
	table := created(t, client)
	if err := oncedynamo.CreateTable(t.Context(), client, table); err != nil {
		t.Errorf("create the table again: %v; want no change", err)
	}
	out, err := client.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &table})
	if err != nil || out.TimeToLiveDescription.AttributeName == nil || *out.TimeToLiveDescription.AttributeName != "expires" {
		t.Errorf("time to live: %+v, %v; want it on attribute expires", out, err)
	}
}

func TestATableWithAnotherKeyIsAnError(t *testing.T) {
	t.Parallel()
	client := connect(t, nil)
	groups := awstest.Tables(t, client).Groups
	if err := oncedynamo.CreateTable(t.Context(), client, groups); err == nil || !strings.Contains(err.Error(), "another key") {
		t.Errorf("got %v; want an error that says that the key is another one", err)
	}
}

func TestTokensNeedAClientAndATable(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func() (*once.Tokens, error){
		"no client": func() (*once.Tokens, error) { return oncedynamo.Tokens(nil, "tokens") },
		"no table":  func() (*once.Tokens, error) { return oncedynamo.Tokens(dynamodb.New(dynamodb.Options{}), "") },
	} {
		if tokens, err := open(); tokens != nil || err == nil {
			t.Errorf("%s: got %v, %v; want an error", name, tokens, err)
		}
	}
}

func post(h http.Handler, key string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/charges", strings.NewReader("{}"))
	r.Header.Set("Idempotency-Key", key)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// Two replicas have a client each. The documented permissions are all that they use.
func TestReplicasAnswerADuplicateWithTheFirstReply(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	calls := map[string]int{}
	table := created(t, connect(t, nil))
	runs, size := 0, 0
	var replicas []http.Handler
	for range 2 {
		tokens, err := oncedynamo.Tokens(connect(t, func(operation string) {
			mu.Lock()
			defer mu.Unlock()
			calls[operation]++
		}), table)
		if err != nil {
			t.Fatal(err)
		}
		replicas = append(replicas, once.Middleware(tokens, once.MiddlewareConfig{MaxReply: 1 << 20})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			runs++
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write(make([]byte, size))
		})))
	}
	for _, c := range []struct {
		key          string
		size, status int
	}{
		{"small", 10, http.StatusCreated}, {"large", 300 << 10, http.StatusCreated}, {"too-large", 500 << 10, http.StatusInternalServerError},
	} {
		runs, size = 0, c.size
		first, second := post(replicas[0], c.key), post(replicas[1], c.key)
		if first.Code != c.status || second.Code != c.status || first.Body.String() != second.Body.String() {
			t.Errorf("%s: statuses %d and %d, bodies of %d and %d bytes; want twice %d and the same body", c.key, first.Code, second.Code, first.Body.Len(), second.Body.Len(), c.status)
		}
		if runs != 1 {
			t.Errorf("%s: the handler ran %d times, want once", c.key, runs)
		}
	}
	for operation := range calls {
		if !slices.Contains([]string{"GetItem", "PutItem", "DeleteItem"}, operation) {
			t.Errorf("a request calls %s, which the page of permissions does not name", operation)
		}
	}
}
