package dynamostore_test

import (
	"flag"
	"math/rand/v2"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/effectively-once/once/internal/dedup/storetest"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/testkit/awstest"
)

var long = flag.Bool("long", false, "make histories of a million operations; it takes six minutes and more: give it -timeout 1h")

// A rough client loses one in thirty requests, and as many replies, so that the client library
// retries.
type rough struct{ *awshttp.BuildableClient }

func (r rough) Do(request *http.Request) (*http.Response, error) {
	fate := rand.IntN(30)
	if fate == 0 {
		return nil, syscall.ECONNRESET
	}
	response, err := r.BuildableClient.Do(request)
	if err != nil || fate > 1 {
		return response, err
	}
	if err := response.Body.Close(); err != nil {
		return nil, err
	}
	return nil, syscall.ECONNRESET
}

// hasty is an option of a client that retries without pauses.
func hasty(client *dynamodb.Client) *dynamodb.Client {
	options := client.Options()
	options.HTTPClient = rough{awshttp.NewBuildableClient()}
	options.Retryer = retry.NewStandard(func(o *retry.StandardOptions) {
		// the model allows an unconditional write to be applied twice, not three times
		o.MaxAttempts = 2
		o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		o.RateLimiter = ratelimit.None
	})
	return dynamodb.New(options)
}

func TestHistoriesAreLinearizable(t *testing.T) {
	t.Parallel()
	client := connect(t)
	operations := 3_200
	if *long {
		operations = 1_000_000
	}
	storetest.Histories(t, storetest.Harness{
		RecognisesCommit: true, Abreast: 8,
		Open: func(t *testing.T, now func() time.Time) record.Store {
			t.Helper()
			return open(t, hasty(client), awstest.Tables(t, client), now)
		},
	}, operations)
}
