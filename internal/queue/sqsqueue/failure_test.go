package sqsqueue_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
)

var errAway = errors.New("no route to host")

type away struct{}

func (away) Do(*http.Request) (*http.Response, error) { return nil, errAway }

func TestEveryCallToAQueueThatIsUnreachableIsAnError(t *testing.T) {
	client := sqs.New(sqs.Options{
		Region: "eu-central-1", Credentials: credentials.NewStaticCredentialsProvider("key", "secret", ""), HTTPClient: away{}, RetryMaxAttempts: 1,
	})
	q := sqsqueue.New(client, "https://sqs.test/1/q")
	_, receiveErr := q.Receive(t.Context(), 1, time.Minute, 0)
	for name, err := range map[string]error{
		"send":              q.Send(t.Context(), []queue.Message{{Body: "x"}})[0].Err,
		"receive":           receiveErr,
		"delete":            q.Delete(t.Context(), []string{"r"})[0],
		"change visibility": q.ChangeVisibility(t.Context(), "r", 0),
	} {
		if !errors.Is(err, errAway) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
