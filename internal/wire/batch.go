package wire

import (
	"strings"

	"github.com/aws/aws-lambda-go/events"
)

// Behind tells of each message of a batch whether an earlier one of its message group has failed: it is to be delivered again too, or it would overtake the one
// that failed. Only first-in-first-out queues promise that order; in a standard queue a message group is about fairness, and nothing is behind anything.
func Behind(batch []events.SQSMessage, failed func(i int) bool) []bool {
	behind := make([]bool, len(batch))
	stopped := map[string]bool{}
	for i := range batch {
		if !strings.HasSuffix(batch[i].EventSourceARN, ".fifo") {
			continue
		}
		group := batch[i].EventSourceARN + "\x1f" + batch[i].Attributes["MessageGroupId"]
		behind[i] = stopped[group]
		stopped[group] = behind[i] || failed(i)
	}
	return behind
}
