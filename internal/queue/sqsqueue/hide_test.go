package sqsqueue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/queue"
	"github.com/effectively-once/once/internal/queue/queuetest"
	"github.com/effectively-once/once/internal/queue/sqsqueue"
	"github.com/effectively-once/once/internal/testkit/awstest"
)

// The triggers of groups whose effects fail are hidden for the pauses of their policies.
func TestAHiddenMessageIsDeliveredAfterItsOwnPauseAndItsGroupNotBefore(t *testing.T) {
	t.Parallel()
	client := sqs.NewFromConfig(awstest.Config(t, "SQS"))
	q := create(t, client, queuetest.Options{FIFO: true}).(*sqsqueue.Queue)
	const groups = 12 // more than one batch
	var messages []queue.Message
	for _, body := range []string{"first", "second"} {
		for g := range groups {
			messages = append(messages, queue.Message{Body: body, Group: fmt.Sprint("g", g), DedupID: fmt.Sprint(body, g)})
		}
	}
	for _, r := range q.Send(t.Context(), messages) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	var receipts []string
	var pauses []time.Duration
	for seen := map[string]bool{}; len(seen) < groups; {
		batch, err := q.Receive(t.Context(), 10, 5*time.Minute, time.Second)
		if err != nil || len(batch) == 0 {
			t.Fatalf("%d of %d groups were received: %v", len(seen), groups, err)
		}
		for _, d := range batch {
			seen[d.Group] = true
			pause := 10 * time.Minute
			if d.Group == "g3" || d.Group == "g11" {
				pause = 1500 * time.Millisecond
			}
			receipts, pauses = append(receipts, d.Receipt), append(pauses, pause)
		}
	}
	for i, err := range q.Hide(t.Context(), receipts, pauses) {
		if err != nil {
			t.Errorf("receipt %d: %v", i, err)
		}
	}
	var got []string
	for len(got) < 4 {
		batch, err := q.Receive(t.Context(), 10, time.Minute, 20*time.Second)
		if err != nil || len(batch) == 0 {
			t.Fatalf("received %v: %v", got, err)
		}
		for _, d := range batch {
			got = append(got, d.Group+" "+d.Body)
			if d.Body == "first" && d.Receives != 2 {
				t.Errorf("%s: %d receives", d.Group, d.Receives)
			}
		}
		for _, d := range batch { // so that the second of its group can be received
			if err := q.Delete(t.Context(), []string{d.Receipt})[0]; err != nil {
				t.Fatal(err)
			}
		}
	}
	slices.Sort(got)
	if d := cmp.Diff([]string{"g11 first", "g11 second", "g3 first", "g3 second"}, got); d != "" {
		t.Errorf("delivered (-want +got):\n%s", d)
	}
	if batch, err := q.Receive(t.Context(), 10, time.Minute, 0); err != nil || len(batch) > 0 {
		t.Errorf("delivered before their pause: %+v, %v", batch, err)
	}
}
