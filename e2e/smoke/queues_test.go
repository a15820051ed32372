package smoke

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/uuid"
)

func TestAMessageThatIsDoneLeavesNothingInAnyQueue(t *testing.T) {
	stream, urls := deployed(t), queueURLs(t)
	cfg, err := config.LoadDefaultConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	key := uuid.NewString()
	if sent := ask(t, "POST", stream+"/messages", "once", "Idempotency-Key", key); sent.status != http.StatusAccepted {
		t.Fatalf("answer: %d %s", sent.status, sent.body)
	}
	untilDone(t, stream+"/messages/"+key)
	client, began := sqs.NewFromConfig(cfg), time.Now()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for _, name := range slices.Sorted(maps.Keys(urls)) {
		left := waiting(t, client, urls[name])
		for left > 0 && time.Since(began) < patience {
			<-tick.C
			left = waiting(t, client, urls[name])
		}
		if left > 0 {
			t.Errorf("%s still has %d messages", name, left)
		}
	}
}

// queueURLs reads the queues from the outputs of the deployment, in the file ONCE_OUTPUTS.
func queueURLs(t *testing.T) map[string]string {
	t.Helper()
	path := os.Getenv("ONCE_OUTPUTS")
	if path == "" {
		t.Skip("ONCE_OUTPUTS is not set: the queues are not known")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var stacks map[string]map[string]string
	if err := json.Unmarshal(data, &stacks); err != nil {
		t.Fatal(err)
	}
	urls := map[string]string{}
	for _, outputs := range stacks {
		maps.Copy(urls, outputs)
	}
	maps.DeleteFunc(urls, func(name, _ string) bool { return !strings.HasSuffix(name, "QueueUrl") })
	if len(urls) == 0 {
		t.Fatalf("%s names no queue", path)
	}
	return urls
}

// waiting counts the messages of a queue that are there or in flight. Delayed ones may stay: the triggers of requests that ran at once do nothing when they come.
func waiting(t *testing.T, client *sqs.Client, url string) int {
	t.Helper()
	names := []types.QueueAttributeName{types.QueueAttributeNameApproximateNumberOfMessages, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible}
	out, err := client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: names})
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, name := range names {
		n, err := strconv.Atoi(out.Attributes[string(name)])
		if err != nil {
			t.Fatalf("%s of %s: %v", name, url, err)
		}
		sum += n
	}
	return sum
}
