package wire

import (
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/google/go-cmp/cmp"
)

func TestWhatFollowsAFailureInAnOrderedMessageGroupIsBehindIt(t *testing.T) {
	batch := func(arn string) []events.SQSMessage {
		var out []events.SQSMessage
		for _, group := range []string{"a", "b", "a", "a", "b"} {
			out = append(out, events.SQSMessage{EventSourceARN: arn, Attributes: map[string]string{"MessageGroupId": group}})
		}
		return out
	}
	second := func(i int) bool { return i == 2 }
	if diff := cmp.Diff([]bool{false, false, false, true, false}, Behind(batch("arn:aws:sqs:x:1:ingress.fifo"), second)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(make([]bool, 5), Behind(batch("arn:aws:sqs:x:1:ingress"), second)); diff != "" {
		t.Errorf("on a standard queue: %s", diff)
	}
}
